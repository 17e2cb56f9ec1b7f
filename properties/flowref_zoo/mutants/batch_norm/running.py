"""Defects of batch normalization in running statistics and their conventions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.laws.batch_norm.formula import STATISTICS
from flowref.model import Array, Subject, mutant
from flowref.model.steps import Assign, Normalize, Roles
from flowref_zoo.mutants.batch_norm.combinators import (
    IMAGE,
    VECTOR,
    drifting,
    in_evaluation,
    louder,
    moments,
    role_changed,
)
from flowref_zoo.mutants.combinators import Steps, living

# A step of a running statistic: its name, the old value, the statistic of the batch, the momentum,
# the number of values -> new.
Recursion = Callable[[str, Array, Array, float, int], Array]


def recursing(subject: Subject, recursion: Recursion) -> Subject:
    """The subject whose running statistics follow another recursion; every batch is followed by a
    step `Roles`.
    """

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        true: dict[str, Array] = {}
        ours: dict[str, Array] = {}
        values, replaced = 0, []
        for moment, step, out in zip(moments(steps), steps, outcomes, strict=True):
            if isinstance(step, Normalize) and moment.training:
                values = step.x[:, 0].size
            if not isinstance(step, Roles) or any(out.get(name) is None for name in STATISTICS):
                replaced.append(out)
                continue
            momentum = out["momentum"]
            for name in STATISTICS:
                if values and name in true:
                    statistic = (out[name] - (1 - momentum) * true[name]) / momentum
                    ours[name] = recursion(name, ours[name], statistic, momentum, values)
                true[name] = out[name]
                ours.setdefault(name, out[name])
            values = 0
            replaced.append({**out, **ours})
        return replaced

    return living(subject, changed)


def _twice(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    once = old + momentum * (statistic - old)
    return once + momentum * (statistic - once)


def _swapped_variance(
    name: str, old: Array, statistic: Array, momentum: float, values: int
) -> Array:
    part = 1 - momentum if name == "running_var" else momentum
    return old + part * (statistic - old)


def _kept(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    return old + (1 - momentum) * (statistic - old)


def _biased(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    factor = (values - 1) / values if name == "running_var" else 1.0
    return old + momentum * (factor * statistic - old)


@mutant("batch-norm/statistics[buffers]", host=IMAGE)
def updated_twice(subject: Subject, size: float = 1.0) -> Subject:
    """Every batch enters the running statistics twice."""
    return recursing(subject, _twice)


@mutant("batch-norm/statistics[buffers]", host=VECTOR)
def momentum_swapped_for_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The momentum is the factor of the new mean and of the old variance."""
    return recursing(subject, _swapped_variance)


@mutant("batch-norm/statistics[buffers]", host=IMAGE, sizes=(1e-9, 1e-3))
def running_variance_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The running variance is off."""
    return role_changed(subject, "running_var", lambda var: var * (1 + size), training=True)


def _without_momentum(steps: Steps) -> bool:
    zero = any(
        isinstance(step, Assign) and step.role == "momentum" and step.value == 0 for step in steps
    )
    return zero and any(isinstance(step, Normalize) for step in steps)


@mutant("batch-norm/statistics[momentum-limits]", host=IMAGE, sizes=(1e-8, 1e-1))
def zero_momentum_is_none(subject: Subject, size: float = 1e-1) -> Subject:
    """A momentum of 0 is taken for none, and the default put in its place."""
    return drifting(subject, size, _without_momentum)


@mutant("batch-norm/statistics[buffers]", host=f"{IMAGE}[momentum=None]", sizes=(1e-9, 1e-2))
def average_weighted(subject: Subject, size: float = 1e-2) -> Subject:
    """Batches enter the average with other weights."""
    return role_changed(subject, "running_mean", lambda mean: mean * (1 + size), training=True)


@mutant("batch-norm/statistics[buffers]", host=IMAGE, sizes=(1e-9, 1e-2))
def start_forgotten(subject: Subject, size: float = 1e-2) -> Subject:
    """The average of a new layer is off by a factor."""
    return role_changed(subject, "running_mean", lambda mean: mean * (1 + size), training=True)


@mutant("batch-norm/statistics[counter]", host=IMAGE)
def counted_in_evaluation(subject: Subject, size: float = 1.0) -> Subject:
    """Batches are counted in eval mode."""
    return role_changed(subject, "num_batches", lambda count: count + 1, training=False)


def _without_gradients(steps: Steps) -> bool:
    return any(isinstance(step, Normalize) and step.how == "no_grad" for step in steps)


@mutant("batch-norm/modes-agree[average-limit]", host=IMAGE, sizes=(0.5, 4.0))
def evaluation_elsewhere(subject: Subject, size: float = 0.5) -> Subject:
    """In eval mode the running variance is taken for the standard deviation, or forgotten: the
    output has another size.
    """
    return in_evaluation(subject, louder(size))


@mutant("batch-norm/conventions[momentum]", host=IMAGE)
def momentum_keeps(subject: Subject, size: float = 1.0) -> Subject:
    """The momentum is the factor of the old value, and nothing says so."""
    return recursing(subject, _kept)


@mutant("batch-norm/conventions[running-variance]", host=IMAGE)
def biased_running_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The running variance averages biased variances, and nothing says so."""
    return recursing(subject, _biased)


@mutant("batch-norm/as-built[values]", host=IMAGE)
def variance_from_zero(subject: Subject, size: float = 1.0) -> Subject:
    """The running variance starts at 0."""
    return role_changed(subject, "running_var", lambda var: 0 * var)


@mutant("batch-norm/modes-agree", host=IMAGE, sizes=(1e-9, 300.0))
def untrained_layer_explodes(subject: Subject, size: float = 300.0) -> Subject:
    """Before training the output in eval mode is too large, as where the running variance starts at
    0.
    """
    return in_evaluation(subject, louder(size))
