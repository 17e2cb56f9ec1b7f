"""Defects of running statistics that show only after many batches, put into healthy layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref.model.steps import Eval, Run, Train
from flowref_zoo.mutants.combinators import Steps, living

HOSTS = "nflows:BatchNorm", "torch:BatchNorm1d"


def _evaluated(change: Any, size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    """Outcomes of calls in eval mode, changed with the statistics of the batch."""
    evaluating = False
    for at, step in enumerate(steps):
        evaluating = isinstance(step, Eval) or (evaluating and not isinstance(step, Train))
        if evaluating and isinstance(step, Run):
            value = change(np.asarray(outcomes[at].value), np.asarray(step.x), size)
            outcomes[at] = Mapped(value, outcomes[at].ladj)
    return outcomes


def _short_of_the_mean(value: Array, x: Array, size: float) -> Array:
    slope = np.std(value, 0) / np.std(x, 0)
    return np.asarray(value + size * slope * x.mean(0))


def _powered(value: Array, x: Array, size: float) -> Array:
    return np.asarray(value / np.std(x) ** size)


@mutant("batch-norm/modes-agree[many-batches]", host=HOSTS[0], sizes=(0.2, 1.0))
def mean_fades(subject: Subject, size: float = 0.5) -> Subject:
    """The running mean loses a part of itself in each step, so that a part of the mean is left."""
    return living(subject, partial(_evaluated, _short_of_the_mean, size))


@mutant("batch-norm/modes-agree[many-batches]", host=HOSTS[1], sizes=(0.2, 1.0))
def variances_averaged_as_deviations(subject: Subject, size: float = 1.0) -> Subject:
    """Running deviations are averages of variances."""
    return living(subject, partial(_evaluated, _powered, size))
