"""Defects of batch normalization as a layer of a flow, put into the scenarios that a healthy
subject plays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.laws.batch_norm.mutants import Moment, Steps, at, evaluated, trained
from flowref.laws.batch_norm.running_mutants import lenient
from flowref.model import Array, Mapped, Subject, mutant

LAYER, RUNNING, PYRO = (
    "reference:InvertibleBatchNorm",
    "reference:InvertibleBatchNorm[running]",
    "pyro:BatchNorm",
)


def _ladj(
    change: Callable[[Array, float], Array], training: bool
) -> Callable[[Moment, Mapped, float], Mapped]:
    def apply(moment: Moment, out: Mapped, size: float) -> Mapped:
        if moment.training is not training or out.ladj is None:
            return out
        return Mapped(out.value, change(np.asarray(out.ladj), size))

    return apply


@mutant("batch-norm/log-det", host=f"{LAYER}[img]")
def positions_missing(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det counts one position of an image."""
    return at(subject, "call", _ladj(lambda ladj, size: ladj / 4, False), size)


@mutant("batch-norm/log-det", host=LAYER, sizes=(1e-10, 1e-3))
def log_det_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det is off by a constant."""
    return at(subject, "call", _ladj(lambda ladj, size: ladj + size, False), size)


def _layer_normalized(x: Array, y: Array, size: float) -> Array:
    rows = tuple(range(1, x.ndim))
    return np.asarray((x - x.mean(rows, keepdims=True)) / x.std(rows, keepdims=True))


@mutant("batch-norm/regular-in-eval", host=LAYER)
def layer_normalized(subject: Subject, size: float = 1.0) -> Subject:
    """Each sample is normalized over its features."""
    return at(subject, "normalize", evaluated(_layer_normalized), size)


@mutant("batch-norm/train-inverse-policy", host=LAYER)
def inverse_in_training(subject: Subject, size: float = 1.0) -> Subject:
    """In train mode the inverse answers, and not with what was normalized."""
    return lenient(
        subject, lambda moment: moment.step[:2] == ("call", "inverse") and moment.training
    )


def _inverse_counts(
    play: Callable[..., list[Any]], size: float, steps: Steps, fresh: bool = False
) -> list[Any]:
    outcomes, seen = play(steps, fresh), False
    for place, step in enumerate(steps):
        seen |= step[:2] == ("call", "forward")
        if seen and step[0] == "roles":
            outcomes[place] = {
                **outcomes[place],
                "running_mean": outcomes[place]["running_mean"] + size,
            }
    return outcomes


@mutant("batch-norm/inverse-keeps-statistics", host=PYRO, sizes=(1e-9, 1e-2))
def inverse_counts(subject: Subject, size: float = 1e-2) -> Subject:
    """Sampling in train mode moves the running statistics."""
    return replace(subject, play=partial(_inverse_counts, subject.play, size))


@mutant("batch-norm/batch-jacobian", host=RUNNING, sizes=(1.0, 10.0))
def batch_log_det_off(subject: Subject, size: float = 1.0) -> Subject:
    """The log-dets in train mode are off by a constant."""
    return at(subject, "call", _ladj(lambda ladj, size: ladj + size, True), size)


@mutant("batch-norm/running-average-used", host=RUNNING, sizes=(1e-9, 1e-2))
def averages_before_the_batch(subject: Subject, size: float = 1e-2) -> Subject:
    """Train mode normalizes by other averages than it holds afterwards."""
    return at(subject, "normalize", trained(lambda x, y, s: y * (1 + s)), size)


@mutant("batch-norm/running-average-log-det", host=RUNNING, sizes=(1e-9, 1e-2))
def other_variance_in_log_det(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-det in train mode has the variance of the batch, the output that of the average."""
    return at(subject, "call", _ladj(lambda ladj, size: ladj + size, True), size)


def _through_the_batch(moment: Moment, out: dict[str, Any], size: float) -> dict[str, Any]:
    x, dx = moment.step[1], out["x"]
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    return {**out, "x": dx - size * dx.mean(axes, keepdims=True)} if moment.training else out


@mutant("batch-norm/running-average-gradient", host=RUNNING, sizes=(1e-8, 1.0))
def gradient_in_full(subject: Subject, size: float = 1.0) -> Subject:
    """The gradient passes through the mean of the batch as if it were not averaged."""
    return at(subject, "pullback", _through_the_batch, size)


@mutant("batch-norm/running-average-limits", host=RUNNING, sizes=(1e-9, 1e-2))
def limits_off(subject: Subject, size: float = 1e-2) -> Subject:
    """At the ends of the momentum the output is off."""
    return at(subject, "normalize", trained(lambda x, y, s: y * (1 + s)), size)
