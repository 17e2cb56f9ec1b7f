"""Sampling: from base noise to data, gradients through samples, quantile functions, and averages over latents."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import chdtr, kolmogi, ndtr

from flowref.laws._arithmetic import finite_rows, reported, rows_max
from flowref.laws.density import LEVEL, STAGES, can_be_sampled, critical
from flowref.laws.density_base import LOG_2_PI, normal_base, normalising_calls
from flowref.laws.log_det import is_estimator
from flowref.model import (
    BOUND,
    CONTRACT,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Subject,
    Undecidable,
    Unsupported,
    law,
)

# Numbers of samples whose gradient is looked at, and step sizes of the differences that it is compared with.
PATHS, STEPS = 8, (1e-3, 1e-4, 1e-5)
PATH_ERROR, GAP_FACTOR = 1e-4, 10.0
# How far, in probability, rounding may take a quantile function off its distribution function.
QUANTILE_ERROR = {"float64": 1e-9, "float32": 1e-3}
# Draws of one estimate of a likelihood, and how many estimates are averaged in the two stages.
DRAWS, ESTIMATES = 64, (200, 1000)
# Points are near the middle of the samples, where few draws make no difference of their own.
LATENT_POINTS = 4
RATE_ERROR = 1e-5
TAIL_POINTS = (0.0, 1e-300, 1e-30, 2.0**-60, 1e-17, 2.0**-53, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-8, 1 - 2.0**-20, 1.0)


def unconditional(subject: Subject) -> str | None:
    """The laws of samples look at unconditional flows whose maps are computed in closed form."""
    return "it is conditional" if subject.context_shape is not None else is_estimator(subject)


def maps_of(subject: Subject) -> list[tuple[Any, Any]]:
    """The map from data to latents with the one back; both ways round where user code does not say which is which."""
    if subject.forward is None or subject.inverse is None:
        raise Unsupported("it maps in one direction only")
    calls = {"forward": (subject.forward, subject.inverse), "inverse": (subject.inverse, subject.forward)}
    return [calls[which] for which in normalising_calls(subject)]


@law(
    "sampling/sample-then-inverse",
    needs={"sample", "base_sample", "forward", "inverse"},
    given="data",
    force=CONTRACT,
    promise="samples-from-base",
    local=False,
    size=16,
    scales=(0.0, 0.3),
    effort=3,
    applies=unconditional,
    source="Dinh et al., Real NVP (arXiv:1605.08803), section 3.1: samples are z ~ p_Z taken through the inverse",
)
def sample_then_inverse(subject: Subject, batch: Batch) -> Residual:
    r"""Samples are the base noise taken through the inverse: with noise $z$ the sample is $f^{-1}(z)$, and $f$ of it is $z$.

    Noise and samples are drawn from the same random state.
    """
    assert subject.sample is not None and subject.base_sample is not None
    count = len(batch.x)
    z = np.asarray(subject.base_sample(count, batch.seed, None), dtype=np.float64)
    x = np.asarray(subject.sample(count, batch.seed, None), dtype=np.float64)
    found = []
    for to_latents, to_data in maps_of(subject):
        made = np.asarray(to_data(z, None).value, dtype=np.float64).reshape(count, -1)
        values = [x.reshape(count, -1) - made]
        if not subject.promises.get("inverse_tolerance"):
            # What an iterative inverse leaves open, the map back may enlarge.
            back = np.asarray(to_latents(x, None).value, dtype=np.float64).reshape(count, -1)
            values.append(back - z.reshape(count, -1))
        found.append((np.concatenate(values, 1), made))
    gaps, made = min(found, key=lambda one: float(np.nan_to_num(np.abs(one[0]), nan=np.inf).max(initial=0.0)))
    return Residual(
        gaps,
        scale=1 + rows_max(x) + rows_max(z),
        decidable=finite_rows(z, made),
        observed={"sample": x, "inverse of the base noise": made.reshape(x.shape)},
    )


def differentiable(subject: Subject) -> str | None:
    """Gradients of samples are those with respect to parameters."""
    if not subject.trainable:
        return "it has no trainable parameters"
    return unconditional(subject)


@law(
    "sampling/rsample-grad",
    needs={"sample", "play"},
    given="data",
    force=CONTRACT,
    promise="rsample",
    tolerance=BOUND,
    local=False,
    size=1,
    scales=(0.0, 0.3),
    effort=2,
    applies=differentiable,
    source="Kingma and Welling, Auto-Encoding Variational Bayes (arXiv:1312.6114), section 2.4, on reparameterisation",
)
def rsample_grad(subject: Subject, batch: Batch) -> Residual:
    r"""Reparameterised samples carry the gradient of $f_\theta^{-1}(z)$ with $z$ held fixed, and plain samples carry none.

    The gradient is compared with differences of samples that are drawn from the same random state with moved parameters.
    """
    assert subject.play is not None
    seed = batch.seed
    weights = np.random.default_rng(seed).standard_normal((PATHS, *subject.density_shape))
    plain = subject.play([("draw", PATHS)])[0]
    path = subject.play([("pathwise", PATHS, weights, seed)])[0]
    if not np.isfinite(path["value"]).all() or not np.isfinite(path["slope"]):
        raise Undecidable("its samples or their gradients are not finite")

    def moved(t: float) -> float:
        steps = [("nudge", seed, t), ("pathwise", PATHS, weights, seed)]
        return float((weights * subject.play(steps)[1]["value"]).sum())  # type: ignore[misc]  # asserted above

    slopes = [(moved(t) - moved(-t)) / (2 * t) for t in STEPS]
    gaps = [abs(a - b) for a, b in pairwise(slopes)]
    best = int(np.argmin(gaps))
    slope, gap = slopes[best + 1], gaps[best]
    size = abs(slope) + abs(path["slope"])
    allowed = GAP_FACTOR * gap + PATH_ERROR * size
    if not np.isfinite(allowed) or gap > 0.1 * max(size, 1e-6):
        raise Undecidable("differences of its samples do not settle")
    note, ratio = "", abs(slope - path["slope"]) / allowed if allowed else 0.0
    if plain["graph"]:
        note, ratio = "sample() carries gradients, which rsample is there for", 2.0
    elif not path["graph"] and slope:
        note = "reparameterised samples carry no gradient"
    return Residual(
        np.array([ratio]),
        allowed=1.0,
        trivial=np.array([not slope and not path["slope"]]),
        observed={"autograd": np.array([path["slope"]]), "differences": np.array([slope])},
        note=note,
    )


def has_normal_latents(subject: Subject) -> str | None:
    """The transform of samples is looked at where the base is a standard normal and the map is exact."""
    if float(subject.promises.get("inverse_tolerance", 0.0)) > 1e-4:
        return "its inverse is approximate"
    return normal_base(subject) or can_be_sampled(subject)


@law(
    "sampling/pit-uniform",
    needs={"sample", "forward"},
    given="data",
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=has_normal_latents,
    source="the probability integral transform; Kolmogorov's distribution of the largest deviation",
)
def pit_uniform(subject: Subject, batch: Batch) -> Residual:
    r"""The latents of samples are uniform after the base's distribution function: $\Phi(f(x))$ is, entry by entry.

    Their squared norm and two random projections are compared as well. Two stages at level 1e-3 each; violated only if fresh
    and larger samples confirm the first.
    """
    worst: float = 0.0
    told: dict[str, float] = {}
    if normal_base(subject):
        raise Unsupported(normal_base(subject))
    for stage, count in enumerate(STAGES):
        every = [deviations(subject, which, count, batch.seed + 1000 * stage) for which in normalising_calls(subject)]
        told = min(every, key=lambda found: max(found.values()))
        worst = max(told.values()) * math.sqrt(count) / float(kolmogi(LEVEL / len(told)))
        if worst <= 1:
            break
    place = max(told, key=lambda name: told[name])
    observed: dict[str, Any] = {"largest deviation from uniform": np.array([told[place]])}
    return Residual(np.array([worst]), allowed=1.0, observed=observed, note=f"of {place}" if worst > 1 else "")


def deviations(subject: Subject, which: str, count: int, seed: int) -> dict[str, float]:
    """Kolmogorov's distance from uniform of the latents' entries, of projections of them and of their norm."""
    assert subject.sample is not None
    to_latents = getattr(subject, which)
    x = np.asarray(subject.sample(count, seed, None), dtype=np.float64)
    if x.shape != (count, *subject.density_shape):
        raise Unsupported(f"sample({count}) returned shape {x.shape}; expected {(count, *subject.density_shape)}")
    z = np.asarray(to_latents(x, None).value, dtype=np.float64).reshape(count, -1)
    kept = np.isfinite(z).all(1)
    if kept.mean() < 0.9999:
        raise Undecidable("more than one latent in ten thousand is not finite")
    z = z[kept]
    found = {f"entry {place}": distance(ndtr(column)) for place, column in enumerate(z.T)}
    directions = np.random.default_rng(seed).standard_normal((2, z.shape[1]))
    for place, direction in enumerate(directions):
        found[f"projection {place}"] = distance(ndtr(z @ direction / np.linalg.norm(direction)))
    found["the squared norm"] = distance(chdtr(z.shape[1], (z**2).sum(1)))
    return found


def distance(u: Array) -> float:
    """The largest difference of the empirical distribution function from the uniform one."""
    ordered, places = np.sort(u), np.arange(len(u) + 1) / len(u)
    return float(max((places[1:] - ordered).max(), (ordered - places[:-1]).max()))


@law(
    "sampling/inverse-transform-galois",
    needs={"cdf", "icdf"},
    given="data",
    tolerance=BOUND,
    local=False,
    effort=4,
    source="the quantile function is the generalised inverse F^-1(u) = min{x : F(x) >= u}",
)
def inverse_transform_galois(subject: Subject, batch: Batch) -> Residual:
    r"""The quantile function inverts the distribution function: $F^{-1}(u) \le x$ iff $u \le F(x)$, and $F(F^{-1}(u)) \ge u$.

    Equality holds where there are no atoms, which a subject promises ("atoms") that has some; they are "exact" where both
    functions read the same steps.
    """
    assert subject.cdf is not None and subject.icdf is not None
    x = batch.x.reshape(len(batch.x), -1)
    if x.shape[1] != 1:
        raise Unsupported("distribution functions are compared for univariate distributions")
    reached = np.asarray(subject.cdf(batch.x), dtype=np.float64).reshape(len(x))
    rng = np.random.default_rng(batch.seed)
    # Probabilities that are reached at the points, and just missed, tell orders best.
    u = np.where(rng.random(len(x)) < 0.5, reached * rng.choice((1.0, 0.999, 1.001), len(x)), rng.random(len(x)))
    u = np.clip(u, 1e-12, 1 - 1e-12)
    quantile = np.asarray(subject.icdf(u.reshape(batch.x.shape)), dtype=np.float64).reshape(len(x))
    again = np.asarray(subject.cdf(quantile.reshape(batch.x.shape)), dtype=np.float64).reshape(len(x))
    below = quantile[None, :] <= x
    order = np.where(below, u[None, :] - reached[:, None], reached[:, None] - u[None, :])
    galois = np.maximum(order, 0.0).max(1)
    if subject.promises.get("atoms") == "exact":
        # Steps are told to the last bit, so that which side of one a probability is on is no matter of rounding.
        galois = np.maximum(galois, (below != (u[None, :] <= reached[:, None])).max(1))
    returned = np.maximum(u - again, 0.0) if subject.promises.get("atoms") else np.abs(u - again)
    return Residual(
        np.stack([galois, returned], 1),
        allowed=QUANTILE_ERROR[subject.dtype] + float(subject.promises.get("inverse_tolerance", 0.0)),
        decidable=finite_rows(reached),
        observed={"u": u, "quantile of u": quantile, "F(quantile of u)": again},
    )


def is_exponential(subject: Subject) -> str | None:
    """The quantiles of an exponential distribution are known."""
    return None if subject.promises.get("exponential-rate") else "it does not promise exponential-rate"


@law(
    "sampling/exp-quantile",
    needs={"icdf"},
    given="data",
    tolerance=BOUND,
    local=False,
    size=1,
    effort=1,
    applies=is_exponential,
    source="F(x) = 1 - exp(-rate x), so that F^-1(u) = -log(1 - u) / rate; by log1p, since 1 - u rounds to 1",
)
def exp_quantile(subject: Subject, batch: Batch) -> Residual:
    r"""Exponential quantiles are $-\log(1 - u)/\lambda$ to full precision, also for small $u$; 0 at 0, infinite at 1."""
    assert subject.icdf is not None
    kind, ones = np.dtype(subject.dtype), np.ones((1, *subject.density_shape))
    # The rate as the object has it, whose promise may have been read in another precision: the median is log(2) / rate.
    rate, promised = math.log(2) / float(np.ravel(subject.icdf(0.5 * ones))[0]), subject.promises["exponential-rate"]
    rate = rate if abs(rate - promised) <= RATE_ERROR * promised else promised
    u = np.array(TAIL_POINTS, dtype=kind).astype(np.float64)
    u = u[(u == 0) | (u >= np.finfo(kind).tiny)]
    with np.errstate(divide="ignore"):
        expected = -np.log1p(-u) / rate
    shape = (len(u), *subject.density_shape)
    quantile = np.asarray(subject.icdf(u.reshape(shape)), dtype=np.float64).reshape(len(u))
    same = quantile == expected
    with np.errstate(all="ignore"):
        off = np.where(same, 0.0, np.abs(quantile - expected) / np.where(expected > 0, expected, 1.0))
    worst = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
    return Residual(
        np.full(len(batch.x), off[worst]),
        allowed=64 * float(np.finfo(kind).eps),
        observed={name: np.full(len(batch.x), values[worst]) for name, values in
                  {"u": u, "quantile": quantile, "expected": expected}.items()},
    )  # fmt: skip


def is_rosenblatt(subject: Subject) -> str | None:
    """Rosenblatt's map is known for a multivariate normal."""
    return None if subject.promises.get("rosenblatt") else "it does not promise rosenblatt"


@law(
    "sampling/rosenblatt",
    needs={"forward", "jacobian"},
    local=False,
    effort=4,
    size=16,
    applies=is_rosenblatt,
    source="Rosenblatt 1952, Remarks on a multivariate transformation, Annals of Mathematical Statistics 23",
)
def rosenblatt(subject: Subject, batch: Batch) -> Residual:
    r"""Rosenblatt's map of a normal is $u_i = P(X_i \le x_i \mid x_1, \dots, x_{i-1})$: a triangular Jacobian, and as log-det
    the sum of the conditional log-densities.
    """
    assert subject.forward is not None and subject.jacobian is not None
    known = subject.promises["rosenblatt"]
    mean, covariance = np.asarray(known["mean"], float), np.asarray(known["covariance"], float)
    out = subject.forward(batch.x, batch.context)
    ladj = reported(subject, out, len(batch.x))
    size = len(mean)
    expected, density = np.empty((len(batch.x), size)), np.zeros(len(batch.x))
    for i in range(size):
        # The conditional distribution of a coordinate, given those before it.
        weights = np.linalg.solve(covariance[:i, :i], covariance[:i, i])
        deviation = math.sqrt(covariance[i, i] - weights @ covariance[:i, i])
        z = (batch.x[:, i] - mean[i] - (batch.x[:, :i] - mean[:i]) @ weights) / deviation
        expected[:, i] = ndtr(z)
        density += -0.5 * z**2 - 0.5 * LOG_2_PI - math.log(deviation)
    jacobian = np.asarray(subject.jacobian("forward", batch.x, batch.context), dtype=np.float64)
    with np.errstate(all="ignore"):
        above = np.abs(np.triu(jacobian, 1)).max((1, 2)) / np.abs(jacobian).max((1, 2))
    columns = [out.value - expected, ((ladj - density) / (4 + np.abs(density)))[:, None], np.nan_to_num(above)[:, None]]
    return Residual(
        np.concatenate(columns, 1),
        allowed=float(known.get("precision", 0.0)),
        observed={"u": out.value, "conditional probabilities": expected, "log-det": ladj, "log-density": density},
    )


@law(
    "sampling/latent-mc-estimator",
    needs={"estimate", "log_prob"},
    given="data",
    tolerance=STATISTICAL,
    local=False,
    size=LATENT_POINTS,
    effort=2,
    source="log p(x) = log E_z[p(x|z)] with z from the prior; Jensen's inequality for the logarithm of an average",
)
def latent_mc_estimator(subject: Subject, batch: Batch) -> Residual:
    r"""An average of $p(x \mid z_k)$ over draws of the prior estimates $p(x)$ without bias, and its logarithm is low on average.

    Two stages at level 1e-3 each; violated only if fresh and more estimates confirm the first.
    """
    assert subject.estimate is not None and subject.log_prob is not None
    # Points of the model itself: far from it, no number of draws is enough.
    x = batch.x if subject.sample is None else np.asarray(subject.sample(len(batch.x), batch.seed, None), dtype=float)
    exact = np.asarray(subject.log_prob(x, None), dtype=np.float64).reshape(len(x))
    worst, mean, logs = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x))
    limit = critical(2 * len(x))
    for stage, count in enumerate(ESTIMATES):
        runs = [subject.estimate(x, DRAWS, batch.seed + 1000 * stage + 10 * run, None) for run in range(count)]
        gaps = np.stack([np.asarray(run, dtype=np.float64).reshape(len(x)) for run in runs]) - exact
        ratio = np.exp(gaps)
        mean, logs = ratio.mean(0), gaps.mean(0)
        error = ratio.std(0) / math.sqrt(count) + 1e-12
        # A ratio that few estimates dominate has no normal mean yet.
        settled = ratio.max(0) <= 0.05 * ratio.sum(0)
        bias = np.where(settled, np.abs(mean - 1) / error, 0.0)
        high = np.maximum(logs, 0.0) / (gaps.std(0) / math.sqrt(count) + 1e-12)
        worst = np.maximum(bias, high) / limit
        if not settled.any():
            raise Undecidable("a few draws of the latents dominate every estimate")
        if not (worst > 1).any():
            break
    return Residual(
        worst,
        allowed=1.0,
        observed={"mean of estimated over true likelihood": mean, "mean error of the log-likelihood": logs},
    )
