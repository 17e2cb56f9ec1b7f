"""Each bug is named by what it is, at points that the verdict has not seen; what no bug explains
is left alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import diagnosing
from flowref.checking import Settings
from flowref.model import Status, Verdict

FAULTY = Path(__file__).parent / "buggy.py"
QUICK = Settings("quick")
LOG_DETS = {
    "mean": "1/D of the right one, D = 3 (a mean instead of a sum?); if that is meant, say ?ladj_form=mean",
    "half": "1/2 of the right one",
    "sign": "that of the opposite map",
    "zero": "zero",
    "bits": "the right one over log 2",
    "constant": "the right one plus (D/2) log 2 pi",
    "levels": "minus D log 256; if data are scaled before, say ?offset=-D*log(256)",
    "log 2 once": "the right one plus (D-1) log 2",
    "last left out": "that without the term of coordinate 2",
    "matrix left out": "a term that does not depend on the input",
    "at the output": "that at the output instead of the input",
    "exponential": "the logarithm was not taken; if that is meant, say ?ladj_form=det",
    "slopes": "no logarithm was taken; if that is meant, say ?ladj_form=det",
    "batch mean": "the mean over the batch",
    "row before": "that of the row before",
    "odd factor": "0.73 times the right one",
    "odd constant": "off by the same 0.1234 at every point, whatever the weights",
    "nearly half": "0.5001 times the right one",
}
INVERSES = {
    "shift stays": "off by the same vector at every point",
    "identity": "its input: inverse changes nothing",
    "again": "forward applied twice",
    "reversed": "coordinates in reversed order",
    "two of three": "right but for coordinate 2 of 3",
    "doubled": "twice the point",
}
DENSITIES = {
    "log-det left out": "that of the base alone",
    "log-det subtracted": "that of the base minus the log-det",
    "base left out": "the log-det alone",
    "mean of the base": "the mean of the base's entries",
    "base at x": "the base evaluated at x",
    "no constant": "the right one plus (D/2) log 2 pi",
    "constant once": "the right one plus ((D-1)/2) log 2 pi",
    "log-dets averaged": "the log-dets averaged over the batch",
}
UPDATES = {
    "deviation": "the running variance is moved by the deviation",
    "rows only": "the variance times N/(N-1) of the rows alone",
    "mean square": "the mean is not subtracted",
    "momentum of the variance": "the momentum reversed",
    "nothing taken away": "the old one is not scaled by 1 - m",
}
OUTPUTS = {
    "eval by the batch": "the output in eval mode is that of train mode",
    "unbiased": "divided by n - 1 instead of n",
    "eps outside": "eps outside the square root",
    "no root": "divided by the variance instead of its root",
    "mean stays": "the mean not subtracted",
}
CASES = [
    *(("make", bug, "map/log-det", words) for bug, words in LOG_DETS.items()),
    *(("make", bug, "map/inverse", words) for bug, words in INVERSES.items()),
    ("make", "inverse's at z", "map/log-det[inverse]", "minus that of forward at the same"),
    ("linear", "transpose", "map/inverse", "the transpose of forward's matrix"),
    *(
        ("density", bug, "sampling/follows-density[ratios]", words)
        for bug, words in DENSITIES.items()
    ),
    ("normal", "no constant", "density/mass", "(1/2) log 2 pi: that much is too many"),
    *(
        ("normalizer", bug, "batch-norm/statistics[buffers]", words)
        for bug, words in UPDATES.items()
    ),
    *(
        ("normalizer", bug, "batch-norm/train-map[reference]", words)
        for bug, words in OUTPUTS.items()
    ),
]


def checked(factory: str, bug: str, law: str) -> Verdict:
    """The verdict on something with a bug."""
    return diagnosing.check(f"{FAULTY}:{factory}?bug={bug}", law, QUICK)


@pytest.mark.parametrize(("factory", "bug", "law", "words"), CASES, ids=lambda value: str(value))
def test_a_bug_is_named(factory: str, bug: str, law: str, words: str) -> None:
    """A violation that a known bug makes is accused, and its diagnosis is that bug."""
    verdict = checked(factory, bug, law)
    assert verdict.status is Status.VIOLATED
    assert words in verdict.diagnosis


@pytest.mark.parametrize(("factory", "bug", "law"), [("make", "bump", "map/log-det")])
def test_what_nothing_explains_is_left_alone(factory: str, bug: str, law: str) -> None:
    """A violation that no bug explains has no diagnosis."""
    verdict = checked(factory, bug, law)
    assert verdict.status is Status.VIOLATED
    assert not verdict.diagnosis


@pytest.mark.parametrize("factory", ["make", "density", "linear"])
def test_what_holds_has_no_diagnosis(factory: str) -> None:
    """A law that holds is not diagnosed."""
    verdict = checked(factory, "", "map/log-det")
    assert verdict.status is Status.HOLDS
    assert not verdict.diagnosis


def test_a_constant_that_is_no_closed_form_gets_none() -> None:
    """A factor next to a closed form is told as the number that it is."""
    assert "half" not in checked("make", "nearly half", "map/log-det").diagnosis


def test_the_diagnosis_is_no_part_of_the_verdict() -> None:
    """Status, evidence and case are those of the law alone."""
    from dataclasses import replace

    from flowref import checking

    alone = checking.pair_verdict(f"{FAULTY}:make?bug=half", "map/log-det", QUICK)
    told = checked("make", "half", "map/log-det")
    bare = replace(told, diagnosis="", repairs=())
    assert bare.without_time() == alone.without_time()
