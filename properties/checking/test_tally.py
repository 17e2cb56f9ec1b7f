"""What was seen is counted point by point, and the verdict follows from the counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checking.standins import Standin
from flowref import check
from flowref.checking.judgement import DROPPED, HELD, TRIVIAL, UNDECIDED, Judgement
from flowref.checking.record import counterexample
from flowref.checking.tally import Tally, conclude
from flowref.model import Batch, Condition, Counts, Status, Unsupported

OUTCOMES = (HELD, UNDECIDED, DROPPED, TRIVIAL)
STANDIN = Standin(lambda batch: batch.x[:, 0], features=1)
outcomes = st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=9)


def judgement(outcome: list[str], sizes: Any = None, reason: str = "") -> Judgement:
    """Points judged so, with residuals of which one is allowed."""
    sizes = np.zeros(len(outcome)) if sizes is None else np.asarray(sizes, dtype=float)
    one, zero = np.ones(len(outcome)), np.zeros(len(outcome))
    measurement = STANDIN.measurement(sizes)
    return Judgement(measurement, np.array(outcome, dtype=object), one, zero, reason=reason)


@given(st.lists(outcomes, max_size=5))
def test_every_point_is_counted_once(batches: list[list[str]]) -> None:
    """The counts are those of all the points that were judged, whatever batches they came in."""
    tally = Tally()
    for batch in batches:
        tally.drawn(0.3)
        tally.judged(judgement(batch))
    flat = [outcome for batch in batches for outcome in batch]
    held, undecided, dropped, trivial = (flat.count(outcome) for outcome in OUTCOMES)
    scales = (0.3,) if batches else ()
    assert tally.counts() == Counts(len(batches), held, undecided, dropped, trivial, scales)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_closest_point_is_kept(batches: list[list[float]]) -> None:
    """The evidence of a pass is that of the point that came closest to a violation."""
    tally = Tally()
    for sizes in batches:
        tally.judged(judgement([HELD] * len(sizes), sizes))
    assert tally.closest is not None
    assert tally.closest.margin == max(size for sizes in batches for size in sizes)


def test_only_points_that_held_come_close() -> None:
    """An undecided point, whatever its margin, is no evidence of a pass."""
    tally = Tally()
    tally.judged(judgement([HELD, UNDECIDED, DROPPED], [0.25, 9.0, 9.0]))
    assert tally.closest is not None
    assert tally.closest.margin == 0.25


def test_the_main_reason_is_that_of_most_points() -> None:
    """Reasons are weighed by their points, not by their batches."""
    tally = Tally()
    tally.judged(judgement([UNDECIDED] * 2, reason="a kink"))
    tally.undecided("it does not settle", 5)
    tally.judged(judgement([UNDECIDED] * 2, reason="a kink"))
    assert tally.main_reason == "it does not settle"


@pytest.mark.parametrize(
    ("given", "moved", "status"),
    [
        ([HELD] * 3, [HELD] + [UNDECIDED] * 9, Status.HOLDS),
        ([HELD] * 3, [UNDECIDED] * 9, Status.INCONCLUSIVE),
        ([HELD, UNDECIDED, UNDECIDED], [HELD] + [UNDECIDED] * 9, Status.INCONCLUSIVE),
        ([UNDECIDED], [HELD] + [UNDECIDED] * 9, Status.INCONCLUSIVE),
    ],
)
def test_weights_that_were_moved_too_far_do_not_outvote_those_as_given(
    given: list[str], moved: list[str], status: Status
) -> None:
    """Where most points held at the weights as given, and some at others, the law was judged; that others
    are undecided is told.
    """
    tally = Tally()
    for scale, outcome in ((0.0, given), (3.0, moved)):
        tally.drawn(scale)
        tally.judged(judgement(outcome, reason="too far"))
    verdict = conclude("target", STANDIN.measurement(np.zeros(1)).law, tally, True)
    assert verdict.status is status
    assert "too far" in verdict.reason


@pytest.mark.parametrize(
    ("held", "undecided", "trivial", "dropped", "status"),
    [
        (5, 0, 0, 0, Status.HOLDS),
        (5, 5, 0, 0, Status.HOLDS),
        (5, 6, 0, 0, Status.INCONCLUSIVE),
        (1, 0, 9, 9, Status.HOLDS),
        (0, 0, 9, 0, Status.INCONCLUSIVE),
        (0, 0, 0, 9, Status.INCONCLUSIVE),
        (0, 0, 0, 0, Status.INCONCLUSIVE),
        (0, 1, 9, 0, Status.INCONCLUSIVE),
    ],
)
def test_a_pass_needs_as_many_decided_points_as_undecided_ones(
    held: int, undecided: int, trivial: int, dropped: int, status: Status
) -> None:
    """Points that hold trivially, or of which the law says nothing, put nothing to the test."""
    tally = Tally()
    mixed = [HELD] * held + [UNDECIDED] * undecided + [TRIVIAL] * trivial + [DROPPED] * dropped
    if mixed:
        tally.judged(judgement(mixed))
    verdict = conclude("target", STANDIN.law, tally, declared=True)
    assert verdict.status is status
    assert verdict.counts == tally.counts()
    assert bool(verdict.reason) == (status is not Status.HOLDS or undecided > 0)


def test_what_is_unsupported_everywhere_is_not_applicable() -> None:
    """An ability that turned out to be missing is the reason, unless some points were decided."""
    tally = Tally()
    tally.refused(Unsupported("it has no inverse"))
    verdict = conclude("target", STANDIN.law, tally, declared=True)
    assert (verdict.status, verdict.reason) == (Status.NOT_APPLICABLE, "it has no inverse")
    tally.judged(judgement([HELD]))
    assert conclude("target", STANDIN.law, tally, declared=True).status is Status.HOLDS


def test_an_error_comes_before_a_pass() -> None:
    """A target that raised at one batch has not passed, whatever held elsewhere."""
    tally = Tally()
    tally.judged(judgement([HELD] * 9))
    case = counterexample(Batch(np.zeros((1, 1)), None, 0), Condition())
    verdict = conclude("target", STANDIN.law, replace(tally, error=("it raises", case)), True)
    assert verdict.status is Status.ERROR
    assert verdict.counterexample == case


@pytest.mark.parametrize("declared", [True, False])
def test_who_declares_no_domain_is_told_that_one_can_be(declared: bool) -> None:
    """Where nothing could be measured, an undeclared domain may be why."""
    reason = conclude("target", STANDIN.law, Tally(), declared).reason
    assert ("?domain=" in reason) is not declared


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(0.0, [HELD]), (0.3, [UNDECIDED])], True),
        ([(0.0, [HELD]), (0.3, [DROPPED])], True),
        ([(0.0, [HELD]), (0.3, [UNDECIDED, HELD])], False),
        ([(0.3, [TRIVIAL])], False),
        ([(0.0, [HELD])], False),
    ],
)
def test_moved_weights_of_which_nothing_is_known_are_told_apart(
    batches: list[tuple[float, list[str]]], expected: bool
) -> None:
    """Only where some were moved, and no point of theirs was judged."""
    tally = Tally()
    for scale, outcome in batches:
        tally.drawn(scale)
        tally.judged(judgement(outcome))
    assert tally.only_as_given is expected


@pytest.mark.parametrize(("scale", "status"), [(0.3, "NOT_APPLICABLE"), (0.0, "INCONCLUSIVE")])
def test_what_is_missing_is_missing_where_no_number_is_left(scale: float, status: str) -> None:
    """An ability that is missing at the weights as given silences the law, though points at moved weights
    could not be measured so far as to ask for it; of undecided points at the weights as given, these count.
    """
    tally = Tally()
    tally.drawn(scale)
    tally.undecided("no image is finite", 3)
    tally.drawn(0.0)
    tally.refused(Unsupported("no log-det was found"))
    assert conclude("a flow", STANDIN.law, tally, True).status is Status[status]


@pytest.mark.parametrize(
    "law",
    ["map/log-det[antisymmetry]", "map/inverse-jacobian", "map/inverse[last-call]"],
)
def test_what_an_inverse_brings_back_nowhere_is_said(law: str) -> None:
    """Laws about both directions say what silenced them, and nothing of numbers that are not finite."""
    strange = Path(__file__).parents[1] / "adapters" / "strange.py"
    verdict = check(f"{strange}:NotBack", law)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason.startswith("its inverse recovers no point")
