"""One target, one law, one verdict: the way through the room as a whole, and what a broken piece of
it does to the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checking.broken import acquitting, failing_status, to_zero
from checking.fakes import TARGET, Shelf
from checking.standins import Standin
from flowref.checking import Settings, pair_verdict, remeasure, search
from flowref.checking.examples import SCHEDULE
from flowref.checking.points import example_batch
from flowref.checking.record import record
from flowref.checking.settings import MOST
from flowref.model import (
    Array,
    Batch,
    Condition,
    Law,
    Residual,
    Status,
    Subject,
    TargetError,
    Undecidable,
    Unsupported,
    Verdict,
)

KNOT = 0.5


def residual_beyond(edge: float) -> Callable[[Batch], Any]:
    """A residual at points of which any coordinate lies beyond an edge."""
    return lambda batch: 1e-3 * (batch.x > edge).any(1)


def on_knots(batch: Batch) -> Any:
    """A residual at single points."""
    return 1e-3 * (batch.x == KNOT).any(1)


def put(shelf: Shelf, residual: Callable[[Batch], Any], **details: Any) -> Law:
    """A stand-in on the shelf, and its law."""
    standin = Standin(residual, details={"effort": 14, **details})
    shelf.put(lambda condition: replace(standin.subject, trainable=True))
    return standin.law


def a_defect_is_violated_where_it_is(shelf: Shelf) -> None:
    """The verdict on a law that is violated far out names a point far out, and replays."""
    law = put(shelf, residual_beyond(2.0))
    verdict = pair_verdict(TARGET, law)
    assert verdict.status is Status.VIOLATED
    assert verdict.counterexample is not None
    assert np.asarray(verdict.counterexample.x).max() > 2.0
    assert remeasure(TARGET, law, verdict.counterexample).status is Status.VIOLATED


def a_kink_is_no_violation(shelf: Shelf) -> None:
    """A law of derivatives that fails at single points is not violated."""
    verdict = pair_verdict(TARGET, put(shelf, on_knots))
    assert verdict.status is Status.HOLDS
    assert verdict.counts.undecided


def test_a_defect_is_violated_where_it_is(shelf: Shelf) -> None:
    """A check finds it, shrinks it to a point that shows it, and records it so that it replays."""
    a_defect_is_violated_where_it_is(shelf)


def test_a_kink_is_no_violation(shelf: Shelf) -> None:
    """It is counted as undecided, beside the points that held."""
    a_kink_is_no_violation(shelf)


def test_a_review_that_acquits_everybody_is_caught(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first property fails with it in the way, so it can fail."""
    monkeypatch.setattr(search, "review", acquitting)
    with pytest.raises(AssertionError):
        a_defect_is_violated_where_it_is(shelf)


def test_a_review_that_accuses_everybody_is_caught(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second property fails with it in the way, so it can fail."""
    monkeypatch.setattr(search, "review", failing_status)
    with pytest.raises(AssertionError):
        a_kink_is_no_violation(shelf)


def test_a_shrinker_that_changes_the_violation_is_caught(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first property fails with it in the way, so it can fail."""
    monkeypatch.setattr("flowref.checking.record.shrink", to_zero)
    with pytest.raises(AssertionError):
        a_defect_is_violated_where_it_is(shelf)


def test_every_batch_of_a_pass_is_counted(shelf: Shelf) -> None:
    """As many batches as the effort says, and no more than the profile has, at the weights that the law asks for, and one after
    training.
    """
    verdict = pair_verdict(TARGET, put(shelf, lambda batch: np.zeros(len(batch.x))))
    assert verdict.status is Status.HOLDS
    assert verdict.counts.batches == MOST + 1
    assert set(verdict.counts.scales) == {example.scale for example in SCHEDULE}


@pytest.mark.parametrize("last", [1, 3, 11, 14])
def test_a_violation_is_recorded_once(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Whether the schedule or Hypothesis came upon it, it is shrunk once, and its batch is counted
    once.
    """
    batches: list[int] = []
    recorded: list[Verdict] = []

    def drawn(*given: Any) -> Batch:
        batches.append(len(batches) + 1)
        return example_batch(*given)

    def recording(*given: Any) -> Verdict:
        recorded.append(record(*given))
        return recorded[-1]

    monkeypatch.setattr(search, "example_batch", drawn)
    monkeypatch.setattr(search, "record", recording)
    law = put(shelf, lambda batch: np.full(len(batch.x), len(batches) >= last))
    verdict = pair_verdict(TARGET, law, Settings("thorough"))
    assert verdict.status is Status.VIOLATED
    assert verdict.counts.batches == last
    assert len(recorded) == 1


@pytest.mark.parametrize(("trainable", "fixed"), [(False, False), (True, True)])
def test_weights_that_are_not_trained_are_not_moved(
    shelf: Shelf, trainable: bool, fixed: bool
) -> None:
    """A target without trainable parameters, or that promises that they are fixed, is measured as
    it is.
    """
    law = put(shelf, lambda batch: np.zeros(len(batch.x)))
    subject = replace(shelf.load(TARGET), trainable=trainable)
    subject = subject.with_facts(promises={"fixed": fixed})
    shelf.put(lambda condition: subject)
    assert pair_verdict(TARGET, law).counts.scales == (0.0,)


def test_a_check_is_a_function(shelf: Shelf) -> None:
    """The same pair gets the same verdict, whatever was checked before."""
    standin = Standin(residual_beyond(2.0))
    shelf.put(lambda condition: standin.subject)
    first = pair_verdict(TARGET, standin.law).without_time()
    pair_verdict(TARGET, replace(standin.law, id="test/other"))
    assert pair_verdict(TARGET, standin.law).without_time() == first


@pytest.mark.parametrize(
    ("declared", "everywhere", "status"),
    [
        (True, False, Status.ERROR),
        (False, False, Status.HOLDS),
        (False, True, Status.ERROR),
        (True, True, Status.ERROR),
    ],
)
def test_points_that_raise_are_an_error_inside_a_declared_domain(
    shelf: Shelf, declared: bool, everywhere: bool, status: Status
) -> None:
    """Where no domain is declared, they may lie outside it, unless all raise; the others are
    judged all the same. The record of an error is a single point, and raises again.
    """

    def refusing(batch: Batch) -> Array:
        if everywhere or (batch.x > 20).any():
            raise ValueError("out of range")
        return np.zeros(len(batch.x))

    standin = Standin(refusing, details={"effort": 14})
    shelf.put(lambda condition: standin.subject.with_facts(declared=declared))
    verdict = pair_verdict(TARGET, standin.law)
    assert verdict.status is status
    assert everywhere or verdict.counts.held
    assert bool(verdict.counts.dropped) == (status is Status.HOLDS)
    if status is Status.ERROR:
        assert verdict.reason == "it raises ValueError: out of range"
        assert verdict.counterexample is not None
        assert len(verdict.counterexample.x) == 1
        again = remeasure(TARGET, standin.law, verdict.counterexample)
        assert again.status is Status.ERROR


def test_what_raises_at_moved_weights_only_is_undecided(shelf: Shelf) -> None:
    """A map may be invalid there; that is counted, and said."""
    standin = Standin(lambda batch: np.zeros(len(batch.x)), details={"effort": 14})

    def measure(subject: Subject, batch: Batch) -> Residual:
        if subject.scale:
            raise ValueError("not positive")
        return Residual(np.zeros(len(batch.x)))

    shelf.put(lambda condition: replace(standin.subject, trainable=True, scale=condition.scale))
    verdict = pair_verdict(TARGET, replace(standin.law, measure=measure))
    assert verdict.status in (Status.HOLDS, Status.INCONCLUSIVE)
    assert verdict.counts.undecided
    assert "after moving the parameters it raises ValueError: not positive" in verdict.reason


@pytest.mark.parametrize(("most", "found"), [(0.1, 0.1), (0.05, 0.03), (0.02, 0.01)])
def test_what_bears_little_is_moved_as_far_as_it_bears(
    shelf: Shelf, most: float, found: float
) -> None:
    """Where nothing can be said of moved weights they are moved less and less: a defect that shows as
    soon as they move is found at the first that can be measured, and there it is largest.
    """
    standin = Standin(lambda batch: np.zeros(len(batch.x)), details={"effort": 2})

    def measure(subject: Subject, batch: Batch) -> Residual:
        if subject.scale > most:
            raise Undecidable("it saturates")
        return Residual(np.full(len(batch.x), subject.scale))

    shelf.put(lambda condition: replace(standin.subject, trainable=True, scale=condition.scale))
    verdict = pair_verdict(TARGET, replace(standin.law, measure=measure, scales=(0.0, 0.3)))
    assert verdict.status is Status.VIOLATED
    assert verdict.counterexample is not None
    assert verdict.counterexample.condition.scale == found


def test_a_target_that_cannot_be_built_in_another_state_is_undecided_there(shelf: Shelf) -> None:
    """And judged as it is."""
    standin = Standin(lambda batch: np.zeros(len(batch.x)), details={"effort": 14})

    def build(condition: Condition) -> Subject:
        if condition.seed:
            raise ValueError("no such state")
        return standin.subject

    shelf.put(build)
    verdict = pair_verdict(TARGET, standin.law)
    assert verdict.status is Status.HOLDS
    assert "in another random state it cannot be built: ValueError: no such state" in verdict.reason


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unsupported("it has no inverse"), Status.NOT_APPLICABLE),
        (Undecidable("it does not settle"), Status.INCONCLUSIVE),
    ],
)
def test_a_law_may_say_that_it_says_nothing(shelf: Shelf, error: Exception, status: Status) -> None:
    """With its own reason, and no row is looked for that raised."""

    def silent(batch: Batch) -> Array:
        raise error

    verdict = pair_verdict(TARGET, put(shelf, silent))
    assert (verdict.status, verdict.reason) == (status, str(error))


def test_a_target_that_cannot_be_loaded_raises(shelf: Shelf) -> None:
    """What is wrong with a target is not the law's to say."""

    def build(condition: Condition) -> Subject:
        raise TargetError("no such file")

    shelf.put(build)
    with pytest.raises(TargetError, match="no such file"):
        pair_verdict(TARGET, Standin(on_knots).law)


def larger(features: int) -> tuple[Standin, Callable[[Shelf], None]]:
    """A law that is measured on the target built larger, and what puts both sizes on the shelf."""
    standin = Standin(lambda batch: 1e-3 * np.full(len(batch.x), batch.x.shape[1] > 8))
    standin.details = {"rebuild": "sized", "features": features, "effort": 3}
    small = standin.subject.with_facts(promises={"sized": True})

    def place(shelf: Shelf) -> None:
        shelf.put(lambda condition: small)
        wide = small.with_facts(event_shape=(16,), latent_shape=(16,))
        shelf.put(lambda condition: wide, TARGET.with_options(features=str(features)))

    return standin, place


def test_a_law_of_many_features_is_measured_on_the_target_built_larger(shelf: Shelf) -> None:
    """The verdict names the target that was asked about, and replays on the larger one."""
    standin, place = larger(16)
    place(shelf)
    verdict = pair_verdict(TARGET, standin.law)
    assert (verdict.status, verdict.target) == (Status.VIOLATED, str(TARGET))
    assert verdict.counterexample is not None
    again = remeasure(TARGET, standin.law, verdict.counterexample)
    assert (again.status, again.target) == (Status.VIOLATED, str(TARGET))


def test_a_target_that_refuses_to_be_built_larger_is_not_judged(shelf: Shelf) -> None:
    """The reason says what it raised."""
    standin, _ = larger(16)
    shelf.put(lambda condition: standin.subject.with_facts(promises={"sized": True}))
    verdict: Verdict = pair_verdict(TARGET, standin.law)
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.reason.startswith("with 16 features it raises KeyError")


@pytest.mark.parametrize("profile", ["quick", "standard", "thorough"])
def test_the_profile_says_how_many_batches(shelf: Shelf, profile: str) -> None:
    """Effort is counted in batches, and the settings say how many, with the trained state beside; the quick
    profile measures one state.
    """
    law = put(shelf, lambda batch: np.zeros(len(batch.x)))
    verdict = pair_verdict(TARGET, law, Settings(profile))
    expected = 1 if profile == "quick" else Settings(profile).effort(law) + 1
    assert verdict.counts.batches == expected


@pytest.mark.parametrize("held", [True, False])
def test_the_quick_profile_measures_moved_weights(shelf: Shelf, held: bool) -> None:
    """And those as given only where nothing held there."""

    def residual(batch: Batch) -> Array:
        if not held:
            raise Undecidable("nothing can be said")
        return np.zeros(len(batch.x))

    scales = pair_verdict(TARGET, put(shelf, residual), Settings("quick")).counts.scales
    assert max(scales) > 0 and (0.0 in scales) is not held


@pytest.mark.parametrize(
    ("details", "trained"),
    [
        ({"effort": 3}, True),
        ({"effort": 2}, False),
        ({"effort": 3, "scales": (0.0,)}, False),
        ({"effort": 3, "scales": (0.0,), "scanned": True}, True),
        ({"effort": 3, "history": "fresh"}, False),
    ],
)
def test_the_trained_state_is_visited_where_weights_are_moved(
    shelf: Shelf, details: dict[str, Any], trained: bool
) -> None:
    """By laws that ask for moved weights or for lines, with room for one batch more."""
    pair_verdict(TARGET, put(shelf, lambda batch: np.zeros(len(batch.x)), **details))
    assert any(condition.history == "trained" for condition in shelf.loaded) is trained


def test_what_shows_after_training_alone_is_a_violation(shelf: Shelf) -> None:
    """And the verdict says that it is a trained object that shows it."""
    standin = Standin(lambda batch: np.zeros(len(batch.x)), details={"effort": 3})
    worn = Standin(lambda batch: np.full(len(batch.x), 1e-3), details={"effort": 3})

    def measure(subject: Subject, batch: Batch) -> Residual:
        return (worn if subject.name == "trained" else standin).measure(subject, batch)

    def build(condition: Condition) -> Subject:
        return replace(standin.subject, trainable=True, name=condition.history)

    shelf.put(build)
    verdict = pair_verdict(TARGET, replace(standin.law, measure=measure))
    assert verdict.status is Status.VIOLATED
    assert verdict.reason == "after training"
    assert verdict.counterexample is not None
    assert verdict.counterexample.condition.history == "trained"


def test_what_cannot_be_trained_is_judged_as_it_is(shelf: Shelf) -> None:
    """Without a word about it."""
    standin = Standin(lambda batch: np.zeros(len(batch.x)), details={"effort": 3})

    def build(condition: Condition) -> Subject:
        if condition.history == "trained":
            raise Unsupported("it offers no likelihood to train it by")
        return replace(standin.subject, trainable=True)

    shelf.put(build)
    verdict = pair_verdict(TARGET, standin.law)
    assert (verdict.status, verdict.reason) == (Status.HOLDS, "")
