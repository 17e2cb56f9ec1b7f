"""What is recorded can be measured again: the same violation, with the same residual to the last
bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from checking.fakes import TARGET, Shelf
from checking.standins import Standin
from flowref.checking import remeasure
from flowref.checking.judgement import Judgement
from flowref.checking.record import record
from flowref.checking.tolerance import judge
from flowref.model import (
    ADVICE,
    BOUND,
    EXACT,
    ROUNDING,
    STATISTICAL,
    Array,
    Batch,
    Condition,
    Law,
    Residual,
    Status,
    Subject,
    Target,
    Undecidable,
    Verdict,
)
from flowref.reporting.verdict_json import verdict_from_json, verdict_to_json

Record = Callable[[Target, Judgement], Verdict]
TOLERANCES = (ROUNDING, EXACT, BOUND, STATISTICAL)
MOVED = Condition(scale=0.3, seed=2)
points = arrays.arrays(np.float64, (3, 4), elements=st.floats(-9, 9))


def touchy(tolerance: str = ROUNDING, **details: Any) -> tuple[Law, Callable[[Condition], Subject]]:
    """A law that is violated everywhere, by an amount that hangs on all that a record must keep:
    points, contexts, the seed of the batch, the weights and their random state.
    """
    shape = (4,)

    def residual(subject: Subject, batch: Batch) -> Array:
        context = np.zeros(len(batch.x)) if batch.context is None else batch.context[:, 0]
        seen = np.sin(batch.x).sum(1) + np.cos(context) + np.sin(batch.seed)
        return np.asarray(1.5 + 0.1 * seen + subject.promises["weight"])

    standin = Standin(lambda batch: np.zeros(len(batch.x)))

    def measure(subject: Subject, batch: Batch) -> Residual:
        return Residual(residual(subject, batch) + standin.level)

    def build(condition: Condition) -> Subject:
        weight = 0.1 * condition.scale * np.cos(condition.seed)
        return standin.subject.with_facts(event_shape=shape, promises={"weight": weight})

    return replace(standin.law, measure=measure, tolerance=tolerance, **details), build


def judged(
    law: Law, build: Callable[[Condition], Subject], x: Array, context: Array | None = None
) -> Judgement:
    """A violation at points, at moved weights."""
    standin = Standin(lambda batch: np.zeros(len(batch.x)))
    measurement = standin.measurement(x, context=context, condition=MOVED)
    measurement = replace(measurement, law=law, subject=build(MOVED))
    return judge(measurement.again(measurement.batch))


def replays(recorder: Record, judgement: Judgement, law: Law) -> None:
    """A record, written to a report and read again, is violated again: same residual, same numbers
    beside it.
    """
    written = json.dumps(verdict_to_json(recorder(TARGET, judgement)))
    recorded = verdict_from_json(json.loads(written))
    assert recorded.counterexample is not None
    assert recorded.evidence is not None
    again = remeasure(TARGET, law, recorded.counterexample)
    assert again.status is recorded.status
    assert again.evidence is not None
    assert again.evidence.residual == recorded.evidence.residual
    assert again.evidence.scale == recorded.evidence.scale
    assert again.counterexample == recorded.counterexample


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points, st.sampled_from(TOLERANCES), st.booleans())
def test_a_record_replays(shelf: Shelf, x: Array, tolerance: str, conditional: bool) -> None:
    """For every kind of tolerance, with and without contexts, at weights that were moved."""
    law, build = touchy(tolerance)
    shelf.put(build)
    replays(record, judged(law, build, x, x[:, :2] if conditional else None), law)


def rounded(verdict: Verdict) -> Verdict:
    """A record whose points are rounded to what is printed."""
    return _with(verdict, x=np.round(np.asarray(_case(verdict).x), 6).tolist())


def without_context(verdict: Verdict) -> Verdict:
    """A record that drops the context."""
    return _with(verdict, context=None)


def without_seed(verdict: Verdict) -> Verdict:
    """A record that drops the seed of the batch."""
    return _with(verdict, seed=0)


def without_scale(verdict: Verdict) -> Verdict:
    """A record that forgets how far the weights were moved."""
    return _with(verdict, condition=replace(MOVED, scale=0.0))


def without_random_state(verdict: Verdict) -> Verdict:
    """A record that forgets in which random state the target was built."""
    return _with(verdict, condition=replace(MOVED, seed=0))


def _case(verdict: Verdict) -> Any:
    return verdict.counterexample


def _with(verdict: Verdict, **changes: Any) -> Verdict:
    return replace(verdict, counterexample=replace(_case(verdict), **changes))


BROKEN = (rounded, without_context, without_seed, without_scale, without_random_state)


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("breaking", BROKEN)
def test_a_record_that_does_not_replay_is_caught(
    shelf: Shelf, breaking: Callable[[Verdict], Verdict], tolerance: str
) -> None:
    """Each thing that a record may drop makes the property above fail, so it can fail."""
    # The shrinker would make points of few digits, which lose nothing when they are rounded.
    law, build = touchy(tolerance, force=ADVICE)
    shelf.put(build)
    x = np.linspace(0.1234567, 2.7654321, 12).reshape(3, 4)
    judgement = judged(law, build, x, x[:, :2])
    replays(record, judgement, law)
    with pytest.raises(AssertionError):
        replays(lambda target, judgement: breaking(record(target, judgement)), judgement, law)


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_what_was_mended_holds(shelf: Shelf, tolerance: str) -> None:
    """A case that violates no more is said to hold."""
    law, build = touchy(tolerance)
    shelf.put(build)
    case = record(TARGET, judged(law, build, np.ones((3, 4)))).counterexample
    assert case is not None
    mended = replace(law, measure=lambda subject, batch: Residual(np.zeros(len(batch.x))))
    assert remeasure(TARGET, mended, case).status is Status.HOLDS


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Undecidable("it does not settle"), Status.INCONCLUSIVE, "it does not settle"),
        (ValueError("no\n such  shape"), Status.ERROR, "ValueError: no such shape"),
    ],
)
def test_a_replay_that_raises_says_so(
    shelf: Shelf, error: Exception, status: Status, reason: str
) -> None:
    """What cannot be measured again is neither fixed nor violated."""
    law, build = touchy()
    shelf.put(build)
    case = record(TARGET, judged(law, build, np.ones((3, 4)))).counterexample
    assert case is not None

    def raising(subject: Subject, batch: Batch) -> Residual:
        raise error

    verdict = remeasure(TARGET, replace(law, measure=raising), case)
    assert (verdict.status, verdict.reason) == (status, reason)


@pytest.mark.parametrize(("force", "status"), [("claim", Status.VIOLATED), (ADVICE, Status.ADVICE)])
def test_advice_replays_as_advice(shelf: Shelf, force: str, status: Status) -> None:
    """The force of a law is that of its replay."""
    law, build = touchy(force=force)
    shelf.put(build)
    verdict = record(TARGET, judged(law, build, np.ones((3, 4))))
    assert verdict.status is status
    assert verdict.counterexample is not None
    assert remeasure(TARGET, law, verdict.counterexample).status is status


def test_a_replay_goes_to_the_recorded_condition(shelf: Shelf) -> None:
    """The target is built as it was, asked for in float64: where that failed, loading finds out
    again.
    """
    law, build = touchy()
    shelf.put(build)
    case = record(TARGET, judged(law, build, np.ones((3, 4)))).counterexample
    assert case is not None
    single = replace(case, condition=replace(case.condition, dtype="float32"))
    shelf.loaded.clear()
    remeasure(TARGET, law, single)
    assert shelf.loaded == [MOVED]
