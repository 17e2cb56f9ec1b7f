"""Defects of Gaussian densities, bits per dimension and losses, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant

AFFINE, REAL_NVP, IMAGES = (
    "reference:Flow[affine]",
    "reference:Flow[VectorRealNVP]",
    "reference:Flow[logit]",
)
LOG_2_PI = math.log(2 * math.pi)


def _plus(ability: Callable[..., Array], amount: float, *given: Any) -> Array:
    return np.asarray(ability(*given) + amount)


def _times(ability: Callable[..., Array], factor: float, *given: Any) -> Array:
    return np.asarray(ability(*given) * factor)


def _size(subject: Subject) -> int:
    return math.prod(subject.density_shape)


@mutant("density/gaussian-constant", host=AFFINE)
def dimensions_missing(subject: Subject) -> Subject:
    """The normalizer of the normal density is that of one dimension."""
    amount = 0.5 * (_size(subject) - 1) * LOG_2_PI
    return subject.with_call("base_log_prob", partial(_plus, subject.base_log_prob, amount))


@mutant("density/gaussian-constant", host="nflows:Flow")
def constant_missing(subject: Subject) -> Subject:
    """The normal density lacks its normalizer."""
    return subject.with_call(
        "base_log_prob", partial(_plus, subject.base_log_prob, 0.5 * _size(subject) * LOG_2_PI)
    )


@mutant("density/affine-oracle", host=AFFINE, sizes=(1e-9, 1e-3))
def density_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-density is off by a constant."""
    return subject.with_call("log_prob", partial(_plus, subject.log_prob, size))


@mutant("density/affine-oracle", host="torch:TransformedDistribution")
def volume_counted_twice(subject: Subject) -> Subject:
    """The log-det enters the log-density twice."""
    assert subject.log_prob is not None and subject.inverse is not None
    return subject.with_call("log_prob", partial(_doubled, subject.log_prob, subject.inverse))


def _doubled(
    log_prob: Callable[..., Array],
    inverse: Callable[..., Any],
    x: Array,
    context: Array | None = None,
) -> Array:
    ladj = np.asarray(inverse(x, context).ladj)
    return np.asarray(log_prob(x, context) + ladj.reshape(len(x), -1).sum(1))


@mutant("density/bits-per-dim", host=IMAGES)
def natural_logarithm(subject: Subject) -> Subject:
    """Bits per dimension are nats."""
    return subject.with_call("bits_per_dim", partial(_times, subject.bits_per_dim, math.log(2)))


@mutant("density/bits-per-dim", host="reference:Flow[uniform]")
def levels_counted_twice(subject: Subject) -> Subject:
    """The eight bits of 256 levels are added to data that come in levels already."""
    return subject.with_call("bits_per_dim", partial(_plus, subject.bits_per_dim, 8.0))


@mutant("density/bits-per-dim", host=IMAGES)
def channels_alone(subject: Subject) -> Subject:
    """The dimensions that bits are shared among are one too few."""
    size = _size(subject)
    return subject.with_call(
        "bits_per_dim", partial(_times, subject.bits_per_dim, size / (size - 1))
    )


def _penalized(
    loss: Callable[..., Any], x: Array, context: Array | None = None, weight: float = 1.0
) -> Any:
    nll, penalty = loss(x, context, weight)
    return nll + (penalty or 0.0), penalty


@mutant("density/loss-excludes-penalty", host=REAL_NVP)
def penalty_in_likelihood(subject: Subject) -> Subject:
    """The reported negative log-likelihood contains the penalty."""
    return subject.with_call("loss", partial(_penalized, subject.loss))


def _of_full_batches(
    loss: Callable[..., Any], x: Array, context: Array | None = None, weight: float = 1.0
) -> Any:
    nll, penalty = loss(x, context, weight)
    full = 32
    return nll * len(x) / (full * math.ceil(len(x) / full)), penalty


@mutant("density/loss-batch-mean", host=REAL_NVP)
def last_batch_full(subject: Subject) -> Subject:
    """A sum over the points is divided by the number that full batches would have."""
    return subject.with_call("loss", partial(_of_full_batches, subject.loss))


def _summed(
    loss: Callable[..., Any], x: Array, context: Array | None = None, weight: float = 1.0
) -> Any:
    nll, penalty = loss(x, context, weight)
    return nll * len(x), penalty


@mutant("density/loss-batch-mean", host="normflows:NormalizingFlow")
def sum_for_mean(subject: Subject) -> Subject:
    """The loss is the sum over the batch."""
    return subject.with_call("loss", partial(_summed, subject.loss))
