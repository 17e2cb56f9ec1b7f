"""Defects of layers that take numbers from a batch, put into healthy subjects."""

from __future__ import annotations

from typing import Any

from flowref.model import Life, Mapped, Subject, mutant
from flowref.model.steps import Eval, Run, Train
from flowref_zoo.mutants.combinators import Steps, wrapped


def _stretched(play: Any, size: float, steps: Steps, fresh: bool = False) -> Life:
    """Lives in which the inverse, in train mode, gives back the last batch too wide."""
    training, last = False, None
    outcomes = list(play(steps, fresh))
    for at, step in enumerate(steps):
        training = isinstance(step, Train) or (training and not isinstance(step, Eval))
        if not isinstance(step, Run):
            continue
        if step.call == "forward":
            last = step.x
        elif step.call == "inverse" and training and last is not None:
            axes = (0, *range(2, last.ndim))
            mean = last.mean(axes, keepdims=True)
            outcomes[at] = Mapped(last + size * (last - mean), outcomes[at].ladj)
    return Life(steps, outcomes)


@mutant("map/inverse[batch-spread]", host="nflows:ActNorm", sizes=(1e-5, 1.0))
def other_variance_in_train_inverse(subject: Subject, size: float = 1e-2) -> Subject:
    """The inverse keeps the unbiased variance of a batch that was divided by the biased one."""
    return wrapped(subject, "play", _stretched, size)
