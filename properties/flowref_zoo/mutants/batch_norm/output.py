"""Defects of batch normalization in the values that it returns."""

from __future__ import annotations

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.batch_norm.combinators import (
    IMAGE,
    VECTOR,
    axes,
    deviating,
    hat,
    in_evaluation,
    in_training,
    louder,
    mean,
    stretched,
    variance,
)


def _unbiased(x: Array, y: Array) -> Array:
    values = x[:, 0].size
    return stretched(y, np.sqrt((values - 1) / values))


def _eps_outside(x: Array, eps: float) -> Array:
    return np.sqrt(variance(x)) + eps


def _difference_of_squares(x: Array, eps: float) -> Array:
    values = x.astype(np.float32)
    square = (values * values).mean(axes(x), keepdims=True, dtype=np.float32)
    middle = values.mean(axes(x), keepdims=True, dtype=np.float32)
    return np.asarray(np.sqrt(square - middle * middle + np.float32(eps)))


@mutant("batch-norm/conventions[variance]", host="reference:InvertibleBatchNorm[img]")
def one_less_and_unsaid(subject: Subject, size: float = 1.0) -> Subject:
    """A flow layer normalizes by the unbiased variance, and nothing says so."""
    return in_training(subject, _unbiased)


@mutant("batch-norm/train-map[reference]", host=IMAGE)
def divided_by_one_less(subject: Subject, size: float = 1.0) -> Subject:
    """The batch is normalized by its unbiased variance."""
    return in_training(subject, _unbiased)


@mutant("batch-norm/train-map[reference]", host=VECTOR)
def eps_outside_the_root(subject: Subject, size: float = 1.0) -> Subject:
    """The standard deviation plus eps takes the place of the root of the variance plus eps."""
    return deviating(subject, _eps_outside)


@mutant("batch-norm/train-map[reference]", host=IMAGE, sizes=(1e-10, 1e-3))
def evaluation_off(subject: Subject, size: float = 1e-3) -> Subject:
    """In eval mode the output is too large."""
    return in_evaluation(subject, louder(size))


@mutant("batch-norm/train-map[reference]", host=VECTOR, sizes=(1e-10, 1e-3))
def variance_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The output varies too much."""
    return in_training(subject, lambda x, y: stretched(y, 1 + size))


@mutant("batch-norm/train-map[reference]", host=VECTOR, sizes=(1e-10, 1e-3))
def mean_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean of the batch is not quite taken away."""
    return in_training(subject, lambda x, y: y + size)


@mutant("batch-norm/train-map", host=VECTOR, sizes=(1e-8, 1e-2))
def made_more_gaussian(subject: Subject, size: float = 1e-2) -> Subject:
    """Large values are drawn in, so that the output looks more Gaussian."""
    return in_training(subject, lambda x, y: y - size * (y - mean(y)) ** 3)


@mutant("batch-norm/numerics[offset]", host=IMAGE)
def difference_of_squares(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is the mean of squares less the square of the mean."""
    return deviating(subject, _difference_of_squares)


@mutant("batch-norm/numerics[offset]", host=IMAGE)
def difference_of_equal_squares(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is the mean of squares less the square of the mean, which is negative for some
    constants.
    """
    return deviating(subject, _difference_of_squares)


@mutant("batch-norm/train-map[reference]", host=IMAGE, sizes=(1e-10, 1e-3))
def identity_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The output is too large."""
    return in_training(subject, louder(size))


@mutant("batch-norm/train-map[reference]", host=VECTOR)
def eps_twice(subject: Subject, size: float = 1.0) -> Subject:
    """The constant is added twice."""
    return deviating(subject, lambda x, eps: np.sqrt(variance(x) + 2 * eps))


@mutant("batch-norm/train-map[scale]", host=VECTOR)
def eps_outside(subject: Subject, size: float = 1.0) -> Subject:
    """The standard deviation plus eps takes the place of the root of the variance plus eps."""
    return deviating(subject, _eps_outside)


@mutant("batch-norm/train-map[scale]", host=IMAGE)
def sign_lost(subject: Subject, size: float = 1.0) -> Subject:
    """The output is that of the absolute values."""
    return in_training(subject, lambda x, y: stretched(y, -1.0) if x.reshape(-1)[0] < 0 else y)


@mutant("batch-norm/train-map", host=IMAGE, sizes=(1e-8, 1e-2))
def mean_stays(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of the batch stays in the output."""
    return in_training(subject, lambda x, y: y + size * mean(x))


@mutant("batch-norm/train-map", host=VECTOR, sizes=(1e-9, 1e-2))
def first_sample_weighs_more(subject: Subject, size: float = 1e-2) -> Subject:
    """The first sample counts for more than the others."""
    return in_training(subject, lambda x, y: y - size * y[:1])


@mutant("batch-norm/train-map", host=IMAGE, sizes=(1e-8, 1e-1))
def positions_apart(subject: Subject, size: float = 1e-1) -> Subject:
    """Each position is centered on its own."""
    return in_training(subject, lambda x, y: y - size * (y.mean(0, keepdims=True) - mean(y)))


@mutant("batch-norm/train-map", host=IMAGE, sizes=(1e-8, 1e-2))
def channels_mixed(subject: Subject, size: float = 1e-2) -> Subject:
    """The mean over all channels is taken away as well."""
    return in_training(subject, lambda x, y: y - size * hat(x).mean(1, keepdims=True))


@mutant("map/finite[nan-channel]", host=IMAGE)
def nan_everywhere(subject: Subject, size: float = 1.0) -> Subject:
    """Channels are told apart by a product with zeros, which a nan survives."""
    return in_training(subject, lambda x, y: y + 0 * x.sum())


@mutant("batch-norm/eval-map", host=IMAGE, sizes=(1e-8, 1e-2))
def batch_in_evaluation(subject: Subject, size: float = 1e-2) -> Subject:
    """The spread of the batch enters the output in eval mode."""
    return in_evaluation(subject, lambda x, y: y * (1 + size * np.tanh(x.std())))


@mutant("batch-norm/train-map[reference]", host=f"{IMAGE}[affine=False]", sizes=(1e-10, 1e-3))
def hidden_scale(subject: Subject, size: float = 1e-3) -> Subject:
    """A layer without weight still scales."""
    return in_training(subject, louder(size))


@mutant(
    "batch-norm/eval-map[without-tracking]",
    host=f"{IMAGE}[track_running_stats=False]",
    sizes=(1e-10, 1e-3),
)
def evaluation_differs(subject: Subject, size: float = 1e-3) -> Subject:
    """A layer that keeps no statistics has others in eval mode."""
    return in_evaluation(subject, louder(size))
