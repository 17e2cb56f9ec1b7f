"""Exact sampling: quantile functions, Rosenblatt's map, and averages over latents."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.cases import ONE_CONTEXT
from flowref.laws.common.statistics import Finding, Look, critical, two_stage
from flowref.laws.density.consistency import unconditional_or_bound
from flowref.laws.density.draws import atoms
from flowref.laws.density.statements import function_at
from flowref.model import (
    BOUND,
    STATISTICAL,
    Batch,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import (
    Density,
    Distribution,
    Estimating,
    Flow,
    Quantiles,
)


class EstimatedDensity(Density, Estimating, Protocol):
    """A density with Monte Carlo estimates of it."""


class QuantileDistribution(Distribution, Quantiles, Protocol):
    """A distribution function with its quantile function."""


# The allowed error of a quantile function in probability: rounding, or a search with
# single-precision tolerance.
QUANTILE_ERROR = {"float64": 1e-7, "float32": 1e-3}
# The share of probabilities near 0 or 1, and their distance as powers of ten.
SELDOM, TAILS = 0.2, (-4.0, -2.0)
# Draws of one estimate of a likelihood, estimates of the two stages, and the largest share of one
# estimate.
DRAWS, ESTIMATES, DOMINATING = 64, (200, 1000), 0.05
RATE_ERROR = 1e-5
# Points farther out may overflow a distribution function.
REACH = 1e6
TAIL_POINTS = (
    0.0,
    1e-300,
    1e-30,
    2.0**-60,
    1e-17,
    2.0**-53,
    1e-8,
    1e-3,
    0.1,
    0.5,
    0.9,
    1 - 1e-8,
    1 - 2.0**-20,
    1.0,
)


@law(
    "sampling/quantiles",
    key="sampling/inverse-transform-galois",
    points="data",
    tolerance=BOUND,
    local=False,
    effort=4,
    applies=unconditional_or_bound,
    source="the quantile function is the generalized inverse F^-1(u) = min{x : F(x) >= u}",
    cases=(ONE_CONTEXT,),
)
def inverse_transform_galois(flow: QuantileDistribution, batch: Batch) -> Residual:
    r"""The quantile function inverts the distribution function: $F^{-1}(u) \le x$ iff $u \le
    F(x)$, and $F(F^{-1}(u)) \ge u$; for independent coordinates, entry by entry.

    Equality holds without atoms, which a subject promises ("atoms") or its samples show; they are
    "exact" if both functions use the same steps.
    """
    x = batch.x.reshape(len(batch.x), -1)
    reached, refused = function_at(flow, x)
    known = np.isfinite(reached)
    rng = np.random.default_rng(batch.seed)
    # Probabilities at the points, and just missed, are most sensitive; a few others are near the
    # ends.
    u = np.where(
        rng.random(x.shape) < 0.5,
        np.where(known, reached, 0.5) * rng.choice((1.0, 0.999, 1.001), x.shape),
        rng.random(x.shape),
    )
    tail = 10.0 ** rng.uniform(*TAILS, x.shape)
    u = np.where(rng.random(x.shape) < SELDOM, np.where(u < 0.5, tail, 1 - tail), u)
    u = np.clip(u, 1e-12, 1 - 1e-12)
    quantile = np.asarray(flow.icdf(u.reshape(batch.x.shape)), dtype=np.float64).reshape(x.shape)
    again, lost = function_at(flow, quantile)
    below = quantile[None] <= x[:, None]
    order = np.where(below, u[None] - reached[:, None], reached[:, None] - u[None])
    order[:, lost] = 0.0
    galois = np.maximum(order, 0.0).max(1)
    # A distribution function lies in [0, 1] at every point of the support; moved parameters may be
    # invalid.
    galois = np.maximum(galois, np.maximum(reached - 1.0, -reached))
    doubtful = (flow.scale > 0) | (np.abs(x) > REACH)
    if flow.promises.get("atoms") == "exact":
        # Steps are exact, so the side of a probability does not depend on rounding.
        galois = np.maximum(galois, (below != (u[None] <= reached[:, None])).max(1))
    stepped = bool(flow.promises.get("atoms")) or len(atoms(flow, batch.seed)) > 0
    returned = np.maximum(u - again, 0.0) if stepped else np.abs(u - again)
    return Residual(
        np.concatenate([galois, returned], 1),
        allowed=QUANTILE_ERROR[flow.dtype] + flow.certainty.inverse,
        decidable=(known | ~doubtful).all(1) & ~refused & ~lost,
        observed={"u": u, "quantile of u": quantile, "F(quantile of u)": again},
    )


@requires("it does not promise exponential-rate")
def is_exponential(flow: Flow) -> bool:
    """Exponential quantiles have a closed form."""
    return bool(flow.promises.get("exponential-rate"))


@law(
    "sampling/quantiles[exponential]",
    key="sampling/exp-quantile",
    points="data",
    tolerance=BOUND,
    local=False,
    size=1,
    effort=1,
    applies=is_exponential,
    source="F(x) = 1 - exp(-rate x), so that F^-1(u) = -log(1 - u) / rate; by log1p, since 1 - u rounds to 1",
)
def exp_quantile(flow: Quantiles, batch: Batch) -> Residual:
    r"""Exponential quantiles are $-\log(1 - u)/\lambda$ to full precision, also for small $u$; 0
    at $u = 0$, infinite at $u = 1$.
    """
    kind, ones = np.dtype(flow.dtype), np.ones((1, *flow.density_shape))
    # The rate as the object has it, since the promise may be in another precision: the median is
    # log(2) / rate.
    rate, promised = (
        math.log(2) / float(np.ravel(flow.icdf(0.5 * ones))[0]),
        flow.promises["exponential-rate"],
    )
    rate = rate if abs(rate - promised) <= RATE_ERROR * promised else promised
    u = np.array(TAIL_POINTS, dtype=kind).astype(np.float64)
    u = u[(u == 0) | (u >= np.finfo(kind).tiny)]
    with np.errstate(divide="ignore"):
        expected = -np.log1p(-u) / rate
    shape = (len(u), *flow.density_shape)
    quantile = np.asarray(flow.icdf(u.reshape(shape)), dtype=np.float64).reshape(len(u))
    same = quantile == expected
    with np.errstate(all="ignore"):
        off = np.where(
            same, 0.0, np.abs(quantile - expected) / np.where(expected > 0, expected, 1.0)
        )
    worst = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
    return Residual(
        np.full(len(batch.x), off[worst]),
        allowed=64 * float(np.finfo(kind).eps),
        observed={
            "u": np.full(len(batch.x), u[worst]),
            "quantile": np.full(len(batch.x), quantile[worst]),
            "expected": np.full(len(batch.x), expected[worst]),
        },
    )


@law(
    "sampling/latent-estimator",
    key="sampling/latent-mc-estimator",
    points="data",
    tolerance=STATISTICAL,
    local=False,
    size=3,  # near the middle of the samples, where few draws suffice
    effort=2,
    source="log p(x) = log E_z[p(x|z)] with z from the prior; Jensen's inequality for the logarithm of an average",
)
def latent_mc_estimator(flow: EstimatedDensity, batch: Batch) -> Residual:
    r"""The average of $p(x \mid z_k)$ over draws of the prior is an unbiased estimate of $p(x)$,
    and its logarithm is low on average.

    Two stages at level 1e-3 each; violated only if fresh and more estimates confirm the first.
    """
    # Points of the model itself: far from it no number of draws suffices.
    sample = flow.calls.get("sample")
    x = batch.x
    if sample is not None:
        x = np.asarray(sample(len(batch.x), batch.seed, None), dtype=float)
    exact = np.asarray(flow.log_prob(x, None), dtype=np.float64).reshape(len(x))
    limit = critical(2 * len(x))

    def biases(look: Look) -> Finding:
        seeds = (look.seed + 10 * run for run in range(look.count))
        runs = [flow.estimate(x, DRAWS, seed, None) for seed in seeds]
        gaps = np.stack([np.asarray(run, dtype=np.float64).reshape(len(x)) for run in runs]) - exact
        ratio, logs, root = np.exp(gaps), gaps.mean(0), math.sqrt(look.count)
        # A ratio dominated by few estimates has no normal mean yet.
        settled = ratio.max(0) <= DOMINATING * ratio.sum(0)
        if not settled.any():
            raise Undecidable("a few draws of the latents dominate every estimate")
        mean, error = ratio.mean(0), ratio.std(0) / root + 1e-12
        bias = np.where(settled, np.abs(mean - 1) / error, 0.0)
        high = np.maximum(logs, 0.0) / (gaps.std(0) / root + 1e-12)
        return Finding(
            np.maximum(bias, high) / limit,
            {
                "mean of estimated over true likelihood": mean,
                "mean error of the log-likelihood": logs,
            },
        )

    return two_stage(biases, ESTIMATES, batch.seed).residual()
