"""Defects of layers that take numbers from a batch, put into healthy subjects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.laws.common.defects import Steps, living, wrapped
from flowref.model import Life, Mapped, Subject, mutant
from flowref.model.steps import Eval, Run, Train


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


@mutant("mode/train-roundtrip", host="nflows:ActNorm", sizes=(1e-5, 1.0))
def other_variance_in_train_inverse(subject: Subject, size: float = 1e-2) -> Subject:
    """The inverse keeps the unbiased variance of a batch that was divided by the biased one."""
    return wrapped(subject, "play", _stretched, size)


def _powered(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    for at, step in enumerate(steps):
        if isinstance(step, Run):
            spread = float(np.std(step.x))
            outcomes[at] = Mapped(outcomes[at].value / spread**size, outcomes[at].ladj)
    return outcomes


@mutant("mode/first-batch-scale", host="nflows:ActNorm", sizes=(0.5, 1.0))
def divided_by_the_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The first batch is divided by its variance instead of its deviation."""
    return living(subject, partial(_powered, size))
