"""Defects of layers that their first batch initializes, put into healthy subjects."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref.model.steps import Passed, Run, Trace
from flowref_zoo.mutants.combinators import Steps, living

HOST, DENSITY = "nflows:ActNorm", "flowref_zoo.specimens.batch_norm:normalized"


def _changed(change: Any, size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    for at, step in enumerate(steps):
        if isinstance(step, Run):
            value = change(np.asarray(outcomes[at].value), np.asarray(step.x), size)
            outcomes[at] = Mapped(value, outcomes[at].ladj)
    return outcomes


def _powered(value: Array, x: Array, size: float) -> Array:
    return np.asarray(value / float(np.std(x)) ** size)


def _short_of_the_mean(value: Array, x: Array, size: float) -> Array:
    return np.asarray(value + size * x.mean(0) / x.std(0))


def _by_one_row(value: Array, x: Array, size: float) -> Array:
    return np.asarray(value + size * (x[0] - x.mean(0)) / x.std(0))


@mutant("mode/first-batch", host=HOST, sizes=(0.5, 1.0))
def divided_by_the_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The first batch is divided by its variance instead of its deviation."""
    return living(subject, partial(_changed, _powered, size))


@mutant("mode/first-batch", host=HOST, sizes=(0.4, 2.0))
def mean_added(subject: Subject, size: float = 2.0) -> Subject:
    """The mean of the first batch is added instead of taken away."""
    return living(subject, partial(_changed, _short_of_the_mean, size))


@mutant("mode/first-batch", host=HOST, sizes=(1e-4, 1.0))
def initialized_by_the_first_row(subject: Subject, size: float = 1.0) -> Subject:
    """The mean is that of the first row alone."""
    return living(subject, partial(_changed, _by_one_row, size))


def _powered_inside(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    for at, step in enumerate(steps):
        if isinstance(step, Trace):
            outcomes[at] = [_shrunk(run, size) for run in outcomes[at]]
    return outcomes


def _shrunk(run: Passed, size: float) -> Passed:
    if run.entered is None:
        return run
    return replace(run, value=_powered(run.value, run.entered, size))


@mutant("mode/first-batch[layers]", host=DENSITY, sizes=(0.5, 1.0))
def a_layer_divides_by_the_variance(subject: Subject, size: float = 1.0) -> Subject:
    """What a layer within gives of the first batch is divided by its deviation once more."""
    return living(subject, partial(_powered_inside, size))
