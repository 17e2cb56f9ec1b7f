"""Log-dets in other forms than a number for each point: what calls show is taken, and what they leave
open is asked, or said by ?ladj_form=.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.loading.recipe import recipe_of
from flowref.model import Ambiguous, SpecError, Status, TargetError

FORMED = Path(__file__).with_name("formed.py")
LOG_DET = "map/log-det"


def status(name: str, law: str = LOG_DET) -> Status:
    """What a law says of something formed."""
    return checking.pair_verdict(registry.parse_target(f"{FORMED}:{name}"), law).status


def test_channels_stretched_over_an_image_are_asked_about() -> None:
    """One number for each channel counts at each position, or once; the option decides."""
    with pytest.raises(Ambiguous, match=r"\?ladj_form=stretched.*\?ladj_form=once"):
        recipe_of(registry.parse_target(f"{FORMED}:Channels"))


def test_one_number_that_counts_the_rows_is_asked_about() -> None:
    """A constant times the number of points is a sum over the batch, or a bug; the option decides."""
    with pytest.raises(Ambiguous, match=r"\?ladj_form=batch.*\?ladj_form=once"):
        recipe_of(registry.parse_target(f"{FORMED}:Counted"))
    assert status("Counted?ladj_form=batch") is Status.HOLDS
    assert status("Counted?ladj_form=once") is Status.VIOLATED


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("Channels?ladj_form=stretched", LOG_DET),
        ("Channels?ladj_form=once&times=24", LOG_DET),
        ("Summed?ladj_form=batch", LOG_DET),
        ("Summed?ladj_form=batch&mean=true", LOG_DET),
        ("Averaged?ladj_form=mean", LOG_DET),
        ("Slopes?returns=z,det", LOG_DET),
        ("Slopes?ladj_form=det", LOG_DET),
    ],
)
def test_what_is_said_of_a_form_is_judged_so(name: str, law: str) -> None:
    """In the declared form it holds, and with the sign turned, or a slope off, it does not."""
    assert status(name, law) is Status.HOLDS
    joined = "&" if "?" in name else "?"
    assert status(f"{name}{joined}bug=true", law) is Status.VIOLATED


@pytest.mark.parametrize("name", ["Channels?ladj_form=once", "Averaged", "Slopes", "Summed"])
def test_another_form_than_is_meant_is_accused(name: str) -> None:
    """No form is taken because it would fit the law."""
    assert status(name) is Status.VIOLATED


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("Averaged?event=3&ladj_form=batch", TargetError, "one log-det"),
        ("Averaged?ladj_form=flat", SpecError, "expected stretched, once"),
    ],
)
def test_a_form_that_calls_contradict_is_refused(
    said: str, error: type[Exception], words: str
) -> None:
    """A number for each point is no number of a batch; a form of another name is none."""
    with pytest.raises(error, match=words):
        recipe_of(registry.parse_target(f"{FORMED}:{said}"))


@pytest.mark.parametrize(
    ("name", "told"),
    [("Doubling", "say ?event=1 or"), ("OfThePlane", "say ?event=2 or"), ("Wrong", "")],
)
def test_a_guessed_event_accuses_nobody_whom_another_acquits(name: str, told: str) -> None:
    """Where nothing but calls tells the event, a log-det that is right at another is not judged; one
    that is wrong at all is accused.
    """
    verdict = checking.pair_verdict(registry.parse_target(f"{FORMED}:{name}"), LOG_DET)
    assert verdict.status is (Status.INCONCLUSIVE if told else Status.VIOLATED)
    assert told in verdict.reason
    assert status(f"{name}?event=4") is Status.VIOLATED


def test_a_mean_over_entries_is_no_other_event() -> None:
    """Code that speaks of an axis means more than one entry: a single feature acquits it not."""
    assert status("MeanOfEntries") is Status.VIOLATED


def test_methods_of_one_object_are_moved_and_judged_with_it() -> None:
    """A pair of bound methods is their object."""
    recipe = recipe_of(registry.parse_target("flowref_zoo.specimens.spoken_log_dets:methods"))
    assert list(recipe.build().parameters())


@pytest.mark.parametrize("name", ["Broadcasting", "Waiting"])
def test_what_sync_does_besides_makes_it_no_repair(name: str) -> None:
    """A method of that name that writes to parameters, or to nothing, is not called."""
    assert recipe_of(registry.parse_target(f"{FORMED}:{name}")).dialect.repair is None


def test_single_precision_of_log_dets_excuses_no_values() -> None:
    """Beside a log-det in float32 a way back that is off by 1e-9 is accused."""
    spec = "flowref_zoo.specimens.spoken_log_dets:narrow?defect=inverse-off"
    verdict = checking.pair_verdict(registry.parse_target(spec), "map/inverse")
    assert verdict.status is Status.VIOLATED


@pytest.mark.parametrize("law", [LOG_DET, "map/inverse"])
def test_vectors_that_torch_keeps_of_a_spectral_norm_follow_weights_that_are_moved(
    law: str,
) -> None:
    """A contraction whose weights were moved at once is one, and its inverse converges."""
    spec = "flowref_zoo.specimens.spoken_log_dets:series"
    assert checking.pair_verdict(registry.parse_target(spec), law).status is Status.HOLDS


def test_a_series_is_judged_with_more_terms() -> None:
    """An attribute that adds terms is found by calls: a bug of a tenth of the last two terms shows."""
    assert status("Truncated") is Status.HOLDS
    assert status("Truncated?bug=true") is Status.VIOLATED


def test_a_map_onto_a_surface_is_refused_in_a_sentence() -> None:
    """With the shapes that came in and out, and what can be audited."""
    with pytest.raises(TargetError, match=r"\(2,\) to \(3,\).*in coordinates"):
        recipe_of(registry.parse_target(f"{FORMED}:OntoTheSphere"))
