"""Combinators of defects: what the mutants of batch normalization do to the lives of a healthy
subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from flowref.model import Array, Mapped, Subject
from flowref.model.steps import Assign, Eval, Normalize, Pullback, Pulled, Roles, Run, Step, Train
from flowref_zoo.mutants.combinators import Steps, living

VECTOR, IMAGE = "torch:BatchNorm1d", "torch:BatchNorm2d"
EPS = 1e-5
Kind = TypeVar("Kind", bound=Step[Any])
# What becomes of an output, from the input and it.
OutputChange = Callable[[Array, Array], Array]


class Moment(NamedTuple):
    """Where in a life a step stands: its mode, and the eps that was assigned last."""

    training: bool
    eps: float


def moments(steps: Steps) -> list[Moment]:
    """The moment of every step."""
    moment, passed = Moment(training=False, eps=EPS), []
    for step in steps:
        if isinstance(step, Train | Eval):
            moment = moment._replace(training=isinstance(step, Train))
        if isinstance(step, Assign) and step.role == "eps":
            moment = moment._replace(eps=step.value)
        passed.append(moment)
    return passed


def at(subject: Subject, kind: type[Kind], change: Callable[[Moment, Kind, Any], Any]) -> Subject:
    """The subject with the outcomes of one kind of step changed."""

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        triples = zip(moments(steps), steps, outcomes, strict=True)
        return [
            change(moment, step, out) if isinstance(step, kind) else out
            for moment, step, out in triples
        ]

    return living(subject, changed)


# Outputs


def in_mode(subject: Subject, training: bool, change: OutputChange) -> Subject:
    """The subject with its output changed in one mode."""

    def changed(moment: Moment, step: Normalize, y: Array) -> Array:
        return change(step.x, y) if moment.training is training else y

    # The same call, asked for its log-det as well.
    def changed_with_log_det(moment: Moment, step: Run, out: Mapped) -> Mapped:
        if moment.training is not training or step.call != normalizing:
            return out
        return out._replace(value=change(step.inputs[0], np.asarray(out.value)))

    normalizing = subject.normalizer.call if subject.normalizer else ""
    return at(at(subject, Normalize, changed), Run, changed_with_log_det)


def in_training(subject: Subject, change: OutputChange) -> Subject:
    """The subject with its output changed in train mode."""
    return in_mode(subject, True, change)


def in_evaluation(subject: Subject, change: OutputChange) -> Subject:
    """The subject with its output changed in eval mode."""
    return in_mode(subject, False, change)


def louder(size: float) -> OutputChange:
    """An output that is too large by a share of itself."""
    return lambda x, y: y * (1 + size)


def deviating(subject: Subject, deviation: Callable[[Array, float], Array]) -> Subject:
    """The subject that divides in train mode by another deviation, of a batch and eps."""

    def changed(moment: Moment, step: Normalize, y: Array) -> Array:
        if not moment.training:
            return y
        with np.errstate(all="ignore"):
            divided = np.sqrt(variance(step.x) + moment.eps) / deviation(step.x, moment.eps)
            return stretched(y, divided)

    return at(subject, Normalize, changed)


# Gradients, log-dets and roles


def pulling(
    subject: Subject,
    name: str,
    change: Callable[[Array, Array, Array], Array],
    training: bool = True,
) -> Subject:
    """The subject with one gradient changed in one mode: from the input, the cotangent and the
    gradient.
    """

    def changed(moment: Moment, step: Pullback, out: Pulled) -> Pulled:
        if moment.training is not training:
            return out
        gradient: Any = change(step.x, step.cotangent, getattr(out, name))
        return replace(out, **{name: gradient})

    return at(subject, Pullback, changed)


def reporting(subject: Subject, training: bool, change: Callable[[Array], Array]) -> Subject:
    """The subject with its log-det changed in one mode."""

    def changed(moment: Moment, step: Run, out: Mapped) -> Mapped:
        if moment.training is not training or out.ladj is None:
            return out
        return Mapped(out.value, change(np.asarray(out.ladj)))

    return at(subject, Run, changed)


def role_changed(
    subject: Subject, role: str, change: Callable[[Array], Array], training: bool | None = None
) -> Subject:
    """The subject with what plays a role changed, in one mode or in both."""

    def changed(moment: Moment, step: Roles, out: dict[str, Any]) -> dict[str, Any]:
        if training is not None and moment.training is not training:
            return out
        return {**out, role: change(np.asarray(out[role]))}

    return at(subject, Roles, changed)


def drifting(
    subject: Subject, size: float, after: Callable[[Sequence[Step[Any]]], bool]
) -> Subject:
    """The subject whose running mean is off after steps of which a condition is true."""

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        return [
            {**out, "running_mean": out["running_mean"] + size}
            if isinstance(step, Roles) and after(steps[:index])
            else out
            for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
        ]

    return living(subject, changed)


# Statistics, shaped to be combined with a batch


def axes(x: Array) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return tuple(axis for axis in range(x.ndim) if axis != 1)


def mean(x: Array) -> Array:
    """The mean of each channel."""
    return np.asarray(x.mean(axes(x), keepdims=True))


def variance(x: Array) -> Array:
    """The variance of each channel."""
    return np.asarray(x.var(axes(x), keepdims=True))


def stretched(y: Array, factor: Any) -> Array:
    """An output stretched about its mean, which is its bias."""
    return np.asarray(mean(y) + (y - mean(y)) * factor)


def hat(x: Array) -> Array:
    """A batch standardized."""
    return np.asarray((x - mean(x)) / np.sqrt(variance(x) + EPS))


def slope(x: Array) -> Array:
    """What standardization multiplies a batch by."""
    return np.asarray(1 / np.sqrt(variance(x) + EPS))
