"""Defects of samples, quantiles and averages over latents, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, Unsupported, mutant
from flowref.model.steps import Draw, Pathwise
from flowref_zoo.mutants.combinators import added, at, ladj_added, multiplied, wrapped

FLOW, REAL_NVP = "zuko:MAF", "reference:Flow[VectorRealNVP]"


def _pushed(
    push: Callable[..., Mapped],
    noise: Callable[..., Array],
    n: int,
    seed: int,
    context: Array | None = None,
) -> Array:
    return np.asarray(push(noise(n, seed, context), context).value)


def pushing(subject: Subject, which: str) -> Subject:
    """The subject whose samples are its base noise taken through one of its maps."""
    push, noise = subject.calls[which], subject.calls["base_sample"]
    return subject.with_call("sample", partial(_pushed, push, noise))


@mutant("sampling/base-through-inverse", host=FLOW, sizes=(1e-6, 0.1))
def tempered(subject: Subject, size: float = 0.1) -> Subject:
    """Samples are drawn at another temperature."""
    return multiplied(subject, "sample", 1 - size)


@mutant("sampling/base-through-inverse", host="nflows:Flow")
def noise_through_forward(subject: Subject) -> Subject:
    """Samples are the base noise taken through the map that normalizes."""
    return pushing(subject, "forward")


@mutant("sampling/follows-density[pit]", host=REAL_NVP, sizes=(0.05, 0.2))
def too_narrow(subject: Subject, size: float = 0.1) -> Subject:
    """Latents are drawn with too small a deviation."""
    return pushing(multiplied(subject, "base_sample", 1 - size), "inverse")


def _correlated(
    noise: Callable[..., Array], share: float, n: int, seed: int, context: Array | None = None
) -> Array:
    z = noise(n, seed, context).copy()
    z[:, 1] = share * z[:, 0] + math.sqrt(1 - share**2) * z[:, 1]
    return np.asarray(z)


@mutant("sampling/follows-density[pit]", host="torch:TransformedDistribution", sizes=(0.3, 0.9))
def correlated_noise(subject: Subject, size: float = 0.5) -> Subject:
    """Two coordinates of the base noise are correlated, each of them normal."""
    return pushing(wrapped(subject, "base_sample", _correlated, size), "forward")


@mutant("gradient/of-samples", host=FLOW)
def detached(subject: Subject) -> Subject:
    """Reparameterized samples are detached from the parameters."""
    return at(subject, Pathwise, lambda out: replace(out, graph=False, slope=0.0))


@mutant("gradient/of-samples", host=FLOW)
def gradient_not_finite(subject: Subject) -> Subject:
    """Samples are finite, and their gradient is nan."""
    return at(subject, Pathwise, lambda out: replace(out, slope=math.nan))


@mutant("gradient/of-samples", host=REAL_NVP)
def partly_detached(subject: Subject) -> Subject:
    """A part of the parameters is detached from reparameterized samples."""
    return at(subject, Pathwise, lambda out: replace(out, slope=0.9 * out.slope))


@mutant("gradient/of-samples", host=REAL_NVP)
def graph_of_samples(subject: Subject) -> Subject:
    """Plain samples carry gradients."""
    return at(subject, Draw, lambda out: replace(out, graph=True))


def _next_atom(icdf: Callable[..., Array], u: Array) -> Array:
    # The least value whose distribution function exceeds u, rather than reaches it.
    return icdf(np.nextafter(u, 1.0))


@mutant("sampling/quantiles", host="torch:distributions.Normal", sizes=(1e-6, 1e-2))
def quantiles_shifted(subject: Subject, size: float = 1e-2) -> Subject:
    """Quantiles are those of a shifted distribution."""
    return added(subject, "icdf", size)


@mutant("sampling/quantiles", host="torch:distributions.Normal")
def tail_cut_off(subject: Subject) -> Subject:
    """A search for quantiles ends three standard deviations out."""
    return wrapped(subject, "icdf", _below, 0.9987)


def _below(icdf: Callable[..., Array], most: float, u: Array) -> Array:
    return np.asarray(icdf(np.minimum(u, most)))


@mutant("sampling/quantiles", host="reference:Atoms")
def continuity_assumed(subject: Subject) -> Subject:
    """At an atom the quantile is the next value."""
    if not subject.promises.get("atoms"):
        raise Unsupported("it has no atoms")
    return wrapped(subject, "icdf", _next_atom)


def _nowhere(cdf: Callable[..., Array], x: Array) -> Array:
    p = np.array(cdf(x), dtype=np.float64)
    return np.where(np.asarray(x).reshape(p.shape) > 1.0, np.nan, p)


@mutant("sampling/quantiles", host="torch:distributions.Normal")
def nan_beyond_one(subject: Subject) -> Subject:
    """The distribution function is nan beyond one."""
    return wrapped(subject, "cdf", _nowhere)


@mutant("sampling/quantiles", host="torch:distributions.Normal", sizes=(1e-6, 0.1))
def probability_above_one(subject: Subject, size: float = 1e-3) -> Subject:
    """Probabilities are too large by a factor, and so are those that quantiles take."""
    return multiplied(wrapped(subject, "icdf", _rescaled, 1 + size), "cdf", 1 + size)


def _rescaled(icdf: Callable[..., Array], factor: float, u: Array) -> Array:
    return np.asarray(icdf(np.clip(np.asarray(u) / factor, 0.0, 1.0)))


def _naive(rate: float, u: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(1 - u) / rate)


@mutant("sampling/quantiles[exponential]", host="torch:distributions.Exponential")
def canceled(subject: Subject) -> Subject:
    """The logarithm is taken of 1 - u, which rounds to 1 for small u."""
    return subject.with_call("icdf", partial(_naive, float(subject.promises["exponential-rate"])))


@mutant("sampling/quantiles[exponential]", host="reference:Exponential")
def mean_for_rate(subject: Subject) -> Subject:
    """The rate is taken for a mean."""
    return subject.with_call(
        "icdf", partial(_naive, 1 / float(subject.promises["exponential-rate"]))
    )


def _marginal(
    forward: Callable[..., Mapped], normal: Any, x: Array, context: Array | None = None
) -> Mapped:
    mean, deviation = np.asarray(normal["mean"]), np.sqrt(np.diag(np.asarray(normal["covariance"])))
    u = 0.5 * np.vectorize(math.erfc)((mean - x) / deviation / math.sqrt(2))
    return Mapped(u, forward(x, context).ladj)


@mutant("map/inverse", host="reference:Rosenblatt")
def marginal_distributions(subject: Subject) -> Subject:
    """Each coordinate is mapped by its marginal distribution, rather than its conditional one."""
    return wrapped(subject, "forward", _marginal, subject.promises["rosenblatt"])


@mutant("map/log-det", host="reference:Rosenblatt", sizes=(1e-10, 1e-2))
def conditional_density_off(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-det is off by a constant."""
    return ladj_added(subject, "forward", size)


def _summed(
    estimate: Callable[..., Array], x: Array, draws: int, seed: int, context: Array | None = None
) -> Array:
    return np.asarray(estimate(x, draws, seed, context) + math.log(draws))


@mutant("sampling/latent-estimator", host="reference:GaussianLatentModel")
def sum_over_draws(subject: Subject) -> Subject:
    """Likelihoods are summed over the draws of the prior, as if those were an enumeration of the
    latents.
    """
    return wrapped(subject, "estimate", _summed)


@mutant("sampling/latent-estimator", host="reference:GaussianLatentModel", sizes=(0.1, 0.5))
def likelihood_biased(subject: Subject, size: float = 0.1) -> Subject:
    """Every likelihood is too large by a factor."""
    return added(subject, "estimate", size)


def _columns(
    sample: Callable[..., Array], n: int, seed: int, context: Array | None = None
) -> Array:
    return sample(n, seed, context)[:, None]


@mutant("shape/one-number-per-point[samples]", host=REAL_NVP)
def stages_kept(subject: Subject) -> Subject:
    """Samples keep an axis of one, as a stack of stages."""
    return wrapped(subject, "sample", _columns)


def _one_short(
    sample: Callable[..., Array], n: int, seed: int, context: Array | None = None
) -> Array:
    return np.squeeze(sample(n, seed, context), axis=0) if n == 1 else sample(n, seed, context)


@mutant("shape/one-number-per-point[samples]", host=FLOW)
def single_squeezed(subject: Subject) -> Subject:
    """A single sample comes without the axis of the batch."""
    return wrapped(subject, "sample", _one_short)


def _transposed(
    sample: Callable[..., Array], n: int, seed: int, context: Array | None = None
) -> Array:
    drawn = sample(n, seed, context)
    return drawn.reshape(drawn.shape[1], n) if drawn.ndim == 2 else drawn


@mutant("shape/one-number-per-point[samples]", host=REAL_NVP)
def axes_swapped(subject: Subject) -> Subject:
    """Samples come feature by feature."""
    return wrapped(subject, "sample", _transposed)
