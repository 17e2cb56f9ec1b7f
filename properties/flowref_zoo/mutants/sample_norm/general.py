"""Defects of instance, group and layer normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref.model.steps import Assign, Normalize, Step
from flowref_zoo.mutants.batch_norm.combinators import in_evaluation, in_training, louder
from flowref_zoo.mutants.combinators import living

GROUPS = "flowref_zoo.specimens.other_normalizers:groups"
INSTANCES = "flowref_zoo.specimens.other_normalizers:instances"
ROOTS = "flowref_zoo.specimens.mean_square_normalizers:roots"
LAYER = "flowref_zoo.specimens.other_normalizers:layer"


def _mean(x: Array) -> Array:
    return np.asarray(x.mean(tuple(range(1, x.ndim)), keepdims=True))


@mutant("sample-norm/formula", host=LAYER, sizes=(1e-9, 1e-2))
def mean_stays(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of the sample stays in the output."""
    return in_training(subject, lambda x, y: y + size * _mean(x))


@mutant("sample-norm/formula", host=INSTANCES, sizes=(1e-9, 1e-2))
def largest_counts(subject: Subject, size: float = 1e-2) -> Subject:
    """The first value of a sample enters the output as it is."""
    return in_training(
        subject, lambda x, y: y + size * x.reshape(len(x), -1)[:, 0].reshape(-1, 1, 1, 1)
    )


@mutant("sample-norm/formula", host=GROUPS, sizes=(1e-9, 1e-2))
def drawn_in(subject: Subject, size: float = 1e-2) -> Subject:
    """Large values are drawn in."""
    return in_training(subject, lambda x, y: y - size * y**3)


@mutant("sample-norm/formula", host=INSTANCES, sizes=(1e-9, 1e-2))
def grows_with_spread(subject: Subject, size: float = 1e-2) -> Subject:
    """Samples that vary more have a larger output."""

    def changed(x: Array, y: Array) -> Array:
        spread = x.std(tuple(range(1, x.ndim)), keepdims=True)
        return np.asarray(y * (1 + size * np.tanh(spread)))

    return in_training(subject, changed)


@mutant("sample-norm/formula", host=ROOTS, sizes=(1e-9, 1e-2))
def some_mean_is_taken(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of a sample is taken away that is divided by its root mean square."""

    def changed(x: Array, y: Array) -> Array:
        return np.asarray(y - size * x.mean(-1, keepdims=True) / np.abs(x).max(-1, keepdims=True))

    return in_training(subject, changed)


@mutant("same/train-mode[per-sample]", host=LAYER, sizes=(1e-9, 1e-2))
def louder_in_evaluation(subject: Subject, size: float = 1e-2) -> Subject:
    """In eval mode the output is too large."""
    return in_evaluation(subject, louder(size))


def _of_weight(subject: Subject, change: Callable[[Array, Array], Array]) -> Subject:
    """The subject whose output depends on the weight that was set in another way."""

    def changed(steps: Sequence[Step[Any]], outcomes: list[Any]) -> list[Any]:
        weight: Array | None = None
        out = []
        for step, outcome in zip(steps, outcomes, strict=True):
            if isinstance(step, Assign) and step.role == "weight":
                weight = np.asarray(step.value, dtype=np.float64).reshape(1, -1, 1, 1)
            known = isinstance(step, Normalize) and weight is not None
            out.append(change(np.asarray(outcome), np.asarray(weight)) if known else outcome)
        return out

    return living(subject, changed)


@mutant("sample-norm/formula[parameters]", host=GROUPS)
def weight_twice(subject: Subject) -> Subject:
    """The weight is applied twice."""
    return _of_weight(subject, lambda y, weight: y * weight)


@mutant("sample-norm/formula[parameters]", host=GROUPS)
def weight_unused(subject: Subject) -> Subject:
    """The weight is declared, and not applied."""
    return _of_weight(subject, lambda y, weight: y / weight)


@mutant("sample-norm/formula[parameters]", host=INSTANCES)
def weight_of_another_channel(subject: Subject) -> Subject:
    """The numbers of the weight go to other channels."""
    return _of_weight(subject, lambda y, weight: y / weight * np.roll(weight, 1))


@mutant("sample-norm/formula[parameters]", host=INSTANCES, sizes=(1e-4, 1.0))
def weight_moves_the_bias(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the weight is added to the output in the wrong place."""
    return _of_weight(subject, lambda y, weight: y + size * weight[:, :1])


@mutant("batch-norm/numerics[per-sample]", host=LAYER)
def difference_of_squares(subject: Subject) -> Subject:
    """In float32 the variance is the mean of squares less the square of the mean."""

    def changed(x: Array, y: Array) -> Array:
        axes, values = tuple(range(1, x.ndim)), x.astype(np.float32)
        square, mean = ((values**power).mean(axes, keepdims=True) for power in (2, 1))
        with np.errstate(all="ignore"):
            loss = np.sqrt(x.var(axes, keepdims=True) / (square - mean**2))
        return np.asarray(y * loss if y.dtype == np.float32 else y)

    return in_training(subject, changed)


@mutant("batch-norm/conventions[variance, per-sample]", host=INSTANCES)
def one_less(subject: Subject) -> Subject:
    """The variance is the unbiased one, and nothing says so."""
    return in_training(subject, lambda x, y: y * np.sqrt(1 - 1 / np.prod(x.shape[2:])))
