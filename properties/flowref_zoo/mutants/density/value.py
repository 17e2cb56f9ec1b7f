"""Defects of Gaussian densities, bits per dimension and losses, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied, wrapped

AFFINE, REAL_NVP, IMAGES = (
    "reference:Flow[affine]",
    "reference:Flow[VectorRealNVP]",
    "reference:Flow[logit]",
)
LOG_2_PI = math.log(2 * math.pi)
Loss = tuple[float, float | None]


def _size(subject: Subject) -> int:
    return math.prod(subject.density_shape)


@mutant("density/base-constant", host=AFFINE)
def dimensions_missing(subject: Subject) -> Subject:
    """The normalizer of the normal density is that of one dimension."""
    return added(subject, "base_log_prob", 0.5 * (_size(subject) - 1) * LOG_2_PI)


@mutant("density/base-constant", host="nflows:Flow")
def constant_missing(subject: Subject) -> Subject:
    """The normal density lacks its normalizer."""
    return added(subject, "base_log_prob", 0.5 * _size(subject) * LOG_2_PI)


@mutant("density/base-constant[quadratic-form]", host=AFFINE, sizes=(1e-9, 1e-3))
def density_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-density is off by a constant."""
    return added(subject, "log_prob", size)


@mutant("density/base-constant[quadratic-form]", host="torch:TransformedDistribution")
def volume_counted_twice(subject: Subject) -> Subject:
    """The log-det enters the log-density twice."""
    return wrapped(subject, "log_prob", _doubled, subject.calls["inverse"])


def _doubled(
    log_prob: Callable[..., Array],
    inverse: Callable[..., Mapped],
    x: Array,
    context: Array | None = None,
) -> Array:
    ladj = np.asarray(inverse(x, context).ladj)
    return np.asarray(log_prob(x, context) + ladj.reshape(len(x), -1).sum(1))


@mutant("density/units[bits-per-dim]", host=IMAGES)
def natural_logarithm(subject: Subject) -> Subject:
    """Bits per dimension are nats."""
    return multiplied(subject, "bits_per_dim", math.log(2))


@mutant("density/units[bits-per-dim]", host="reference:Flow[uniform]")
def levels_counted_twice(subject: Subject) -> Subject:
    """The eight bits of 256 levels are added to data that come in levels already."""
    return added(subject, "bits_per_dim", 8.0)


@mutant("density/units[bits-per-dim]", host=IMAGES)
def channels_alone(subject: Subject) -> Subject:
    """The dimensions that bits are shared among are one too few."""
    size = _size(subject)
    return multiplied(subject, "bits_per_dim", size / (size - 1))


@mutant("density/units[bits-per-dim]", host=IMAGES)
def natural_logarithm_of_unknown_levels(subject: Subject) -> Subject:
    """Bits per dimension are nats, and nobody tells how far apart levels are."""
    return multiplied(_without_levels(subject), "bits_per_dim", math.log(2))


@mutant("density/units[bits-per-dim]", host=IMAGES)
def bits_of_entries(subject: Subject) -> Subject:
    """Bits come back for every entry of a point."""
    return wrapped(subject, "bits_per_dim", _of_entries, _size(subject))


def _of_entries(
    bits: Callable[..., Array], size: int, x: Array, context: Array | None = None
) -> Array:
    return np.repeat(np.ravel(bits(x, context)), size + 1)


def _without_levels(subject: Subject) -> Subject:
    promises = {name: value for name, value in subject.promises.items() if name != "level"}
    return subject.with_facts(preprocessing=None, promises=promises)


def _penalized(
    loss: Callable[..., Loss], x: Array, context: Array | None = None, weight: float = 1.0
) -> Loss:
    nll, penalty = loss(x, context, weight)
    return nll + (penalty or 0.0), penalty


@mutant("density/loss[penalty]", host=REAL_NVP)
def penalty_in_likelihood(subject: Subject) -> Subject:
    """The reported negative log-likelihood contains the penalty."""
    return wrapped(subject, "loss", _penalized)


def _of_full_batches(
    loss: Callable[..., Loss], x: Array, context: Array | None = None, weight: float = 1.0
) -> Loss:
    nll, penalty = loss(x, context, weight)
    full = 32
    return nll * len(x) / (full * math.ceil(len(x) / full)), penalty


@mutant("density/loss[batch-mean]", host=REAL_NVP)
def last_batch_full(subject: Subject) -> Subject:
    """A sum over the points is divided by the number that full batches would have."""
    return wrapped(subject, "loss", _of_full_batches)


def _summed(
    loss: Callable[..., Loss], x: Array, context: Array | None = None, weight: float = 1.0
) -> Loss:
    nll, penalty = loss(x, context, weight)
    return nll * len(x), penalty


@mutant("density/loss[batch-mean]", host="normflows:NormalizingFlow")
def sum_for_mean(subject: Subject) -> Subject:
    """The loss is the sum over the batch."""
    return wrapped(subject, "loss", _summed)
