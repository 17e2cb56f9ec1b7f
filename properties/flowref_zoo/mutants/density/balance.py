"""Defects of samplers and densities that show in no Jacobian, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flowref.model import Array, Subject, Unsupported, mutant
from flowref_zoo.mutants.combinators import added, multiplied, value_changed, wrapped

MAF, CONDITIONAL, IMAGES = "zuko:MAF", "nflows:Flow[ctx]", "normflows:MultiscaleFlow"
LOG_2_PI = math.log(2 * math.pi)
Sampler = Callable[..., Array]


@mutant("sampling/follows-density[balance]", host=MAF, sizes=(0.03, 0.3))
def temperature(subject: Subject, size: float = 0.05) -> Subject:
    """Samples are drawn at a temperature that the density does not know."""
    return multiplied(subject, "sample", 1 - size)


@mutant("sampling/follows-density[balance]", host=IMAGES, sizes=(0.03, 0.3))
def temperature_of_images(subject: Subject, size: float = 0.05) -> Subject:
    """Images are drawn at a temperature that the density does not know."""
    return multiplied(subject, "sample", 1 - size)


@mutant("sampling/follows-density[balance]", host="zuko:NICE", sizes=(0.1, 0.5))
def shift_forgotten(subject: Subject, size: float = 0.2) -> Subject:
    """Samples lack the last layer's shift."""
    return added(subject, "sample", size)


def _other_contexts(sample: Sampler, n: int, seed: int, context: Array | None = None) -> Array:
    return sample(n, seed, None if context is None else np.zeros_like(context))


@mutant("sampling/follows-density[balance]", host=CONDITIONAL)
def context_ignored(subject: Subject) -> Subject:
    """The sampler ignores its context."""
    return wrapped(subject, "sample", _other_contexts)


def _one_entry(
    sample: Sampler, factor: float, n: int, seed: int, context: Array | None = None
) -> Array:
    x = sample(n, seed, context).copy()
    flat = x.reshape(n, -1)
    flat[:, -1] *= factor
    return np.asarray(flat.reshape(x.shape))


@mutant("sampling/follows-density[balance]", host=MAF, sizes=(0.08, 0.5))
def last_entry_unscaled(subject: Subject, size: float = 0.2) -> Subject:
    """The last entry of a sample is not scaled as the others are."""
    return wrapped(subject, "sample", _one_entry, 1 + size)


@mutant("sampling/follows-density[balance]", host=IMAGES, sizes=(0.05, 0.5))
def mean_for_sum(subject: Subject, size: float = 0.5) -> Subject:
    """The log-density is off by a factor, as one that averages where it should sum."""
    return multiplied(subject, "log_prob", 1 - size)


@mutant("sampling/follows-density", host=MAF, sizes=(0.05, 1.0))
def constant_missing(subject: Subject, size: float = 0.1) -> Subject:
    """The log-density lacks a constant."""
    return added(subject, "log_prob", size)


@mutant("sampling/follows-density", host="torchflows:Flow[RealNVP,ctx]", sizes=(0.2, 1.0))
def weights_not_normalized(subject: Subject, size: float = 0.5) -> Subject:
    """The weights of a mixture do not sum to one."""
    return added(subject, "log_prob", math.log1p(size))


@mutant("sampling/follows-density", host=IMAGES)
def normalizer_of_one_dimension(subject: Subject) -> Subject:
    """The normalizer of the base counts one dimension of many."""
    size = math.prod(subject.density_shape)
    return added(subject, "log_prob", 0.5 * (size - 1) * LOG_2_PI)


@mutant("density/mass[tails]", host="zuko:MAF[features=2]", sizes=(2.0, 6.0))
def floor(subject: Subject, size: float = 4.0) -> Subject:
    """The log-density is kept above a floor, so that a loss stays finite."""
    return value_changed(subject, "log_prob", lambda log_p: np.maximum(log_p, -size))


def _clamped(
    log_prob: Callable[..., Array], size: float, x: Array, context: Array | None = None
) -> Array:
    return log_prob(np.clip(x, -size, size), context)


@mutant("density/mass[tails]", host="zuko:NICE", sizes=(1.0, 3.0))
def input_clamped(subject: Subject, size: float = 2.0) -> Subject:
    """The density is that of the point clamped to a box."""
    return wrapped(subject, "log_prob", _clamped, size)


@mutant("density/mass[tails]", host="reference:Flow[VectorRealNVP]")
def latents_forgotten(subject: Subject) -> Subject:
    """The base counts half of the latents."""
    latents = subject.calls[subject.normalizing]

    def counted(log_prob: Callable[..., Array], x: Array, context: Array | None = None) -> Array:
        z = np.asarray(latents(x, context).value).reshape(len(x), -1)
        lost = z[:, z.shape[1] // 2 :]
        return np.asarray(log_prob(x, context) + 0.5 * (lost**2 + LOG_2_PI).sum(1))

    return wrapped(subject, "log_prob", counted)


def _mirrored(
    log_prob: Callable[..., Array], size: float, x: Array, context: Array | None = None
) -> Array:
    return np.asarray(log_prob(np.abs(x), context) - np.where(x < 0, size, 0.0).reshape(len(x)))


@mutant("density/support", host="torch:distributions.Exponential", sizes=(0.0, 2.0))
def mirrored(subject: Subject, size: float = 0.0) -> Subject:
    """The density goes on beyond zero, as that of the absolute value."""
    return wrapped(subject, "log_prob", _mirrored, size)


def _per_entry(log_prob: Callable[..., Array], x: Array, context: Array | None = None) -> Array:
    log_p = np.asarray(log_prob(x, context))
    return np.repeat(log_p[:, None], 3, axis=1) / 3


def _in_a_row(log_prob: Callable[..., Array], x: Array, context: Array | None = None) -> Array:
    value = np.asarray(log_prob(x, context))
    return value.reshape(-1) if value.ndim != 1 else value


@mutant("shape/one-number-per-point[log-prob]", host="torch:TransformedDistribution")
def batch_axes_flattened(subject: Subject, size: float = 1.0) -> Subject:
    """Log-densities of points in several batch axes come in a row."""
    if not subject.promises.get("batch-dims"):
        raise Unsupported("it does not promise batch-dims")
    return wrapped(subject, "log_prob", _in_a_row)


@mutant("shape/one-number-per-point[log-prob]", host=MAF)
def not_summed(subject: Subject) -> Subject:
    """The log-density is not summed over the entries."""
    return wrapped(subject, "log_prob", _per_entry)


@mutant("shape/one-number-per-point[log-prob]", host="nflows:SimpleRealNVP")
def summed_over_the_batch(subject: Subject) -> Subject:
    """One number is returned for the whole batch."""
    return value_changed(subject, "log_prob", np.sum)


def _repeated(
    sample: Sampler, share: float, n: int, seed: int, context: Array | None = None
) -> Array:
    x = sample(n, seed, context)
    return np.asarray(x[np.arange(n) % max(1, round(n * (1 - share)))])


@mutant("random/rows-independent[duplicates]", host=MAF, sizes=(0.1, 1.0))
def noise_shared(subject: Subject, size: float = 1.0) -> Subject:
    """Some samples repeat others, as where chunks are drawn from the same random state."""
    return wrapped(subject, "sample", _repeated, size)
