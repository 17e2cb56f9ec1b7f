"""Violations at a guessed event shape are dismissed if the law holds at another shape that the
calls accept as well.
"""

from __future__ import annotations

from dataclasses import replace

from flowref import loading
from flowref.checking.examples import Example
from flowref.checking.judgement import HELD, Judgement
from flowref.checking.measurement import Measurement, measure, precision_of
from flowref.checking.points import example_batch
from flowref.checking.tolerance import judge
from flowref.model import VOLUME, Shape, Target

# Points at which another event shape is tried.
ROWS = 16


def doubted(judgement: Judgement, target: Target, example: Example) -> str:
    """Return why a violation may come from a wrong event shape: the shape at which the law holds,
    and the option that decides. Empty if the shape was not guessed, or the law is violated at every
    shape.
    """
    subject, law = judgement.measurement.subject, judgement.measurement.law
    if not subject.facts.guessed or law.about != VOLUME:
        return ""
    for event in subject.facts.guessed:
        if _holds(judgement.measurement, target, replace(example, batch=ROWS), event):
            taken, other = (",".join(map(str, shape)) for shape in (subject.event_shape, event))
            return (
                f"the event shape {subject.event_shape} was guessed, and with {event} it holds: say "
                f"?event={other} or ?event={taken}"
            )
    return ""


def _holds(violated: Measurement, target: Target, example: Example, event: Shape) -> bool:
    """Whether the law holds at points of another event shape, at every decidable one."""
    law, condition = violated.law, replace(violated.condition, data=False)
    bare = target.without("event")
    options = (*bare.options, ("event", ",".join(map(str, event))))
    other = loading.alias_live_target(target, replace(bare, options=options))
    reach = "near" if example.reach in ("lines", "data") else example.reach
    try:
        subject = loading.load(other, condition)
        batch = example_batch(subject, replace(example, reach=reach), law.points)
        residual = measure(law, subject, batch)
        judged = judge(
            Measurement(
                law, subject, batch, residual, precision_of(subject), violated.root, condition
            )
        )
    except Exception:  # the event does not fit after all
        return False
    return not judged.violates and bool((judged.outcome == HELD).any())
