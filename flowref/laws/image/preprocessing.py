"""Preprocessing: the logit of bounded data, its part in the likelihood, scaling, and
dequantization.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Protocol

import numpy as np
from scipy.special import erf

from flowref.laws.common.arithmetic import finite_rows, log_abs_det, reported, resolvable, rows_max
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import exact_log_det
from flowref.model import (
    BOUND,
    EXACT,
    Array,
    Batch,
    Preprocessing,
    Residual,
    Unsupported,
    law,
)
from flowref.model.abilities import (
    Based,
    Bijection,
    Density,
    Dequantizer,
    Differentiable,
    Flow,
    Invertible,
    Rescaled,
)


class BasedDensityDifferentiable(Based, Density, Differentiable, Protocol):
    """BasedDensityDifferentiable."""


class DensityRescaled(Density, Rescaled, Protocol):
    """DensityRescaled."""


REAL_NVP = "Dinh et al., Real NVP (arXiv:1605.08803), section 4.1"
THEIS = (
    "Theis et al., A note on the evaluation of generative models (arXiv:1511.01844), section 3.1"
)
# Events up to this size have their Jacobian taken.
JACOBIAN_SIZE = 24
FACTORS = (255.0, 1 / 256, 3.0)
# Rounding of a logit and its inverse, in units of the roundoff of p, which lies in (0, 1).
ROUNDTRIP_FACTOR = 32.0
# Without alpha the ends of the range are no data; this far inside, every float32 is a number of its
# own.
MARGIN = 1e-5
NODES, SPREAD, CENTERS = 64, 0.1, (0.25, 0.5, 0.75)
BOUND_ERROR = {"float64": 1e-9, "float32": 1e-3}


def preprocesses(flow: Flow) -> str | None:
    """Laws of a whole flow that begins with a logit, or of one that is nothing else."""
    return (
        None if flow.preprocessing is not None else "its preprocessing of bounded data is not known"
    )


def known_to(flow: Flow) -> Preprocessing:
    """What is known of the preprocessing."""
    if flow.preprocessing is None:
        raise Unsupported("its preprocessing of bounded data is not known")
    return flow.preprocessing


def is_logit(flow: Flow) -> str | None:
    """Laws of the logit itself."""
    known = flow.preprocessing
    if known is None or not known.alone:
        return "it is not known to be a logit of bounded data and nothing else"
    return None


def small_density(flow: Flow) -> str | None:
    """The determinant of a whole flow is taken for small events."""
    if math.prod(flow.density_shape) > JACOBIAN_SIZE:
        return f"its events have more than {JACOBIAN_SIZE} entries"
    return preprocesses(flow) or exact_log_det(flow)


@law(
    "preprocessing/log-det",
    former="preprocessing/ladj",
    given="data",
    size=16,
    effort=4,
    applies=small_density,
    source=REAL_NVP,
)
def ladj(flow: BasedDensityDifferentiable, batch: Batch) -> Residual:
    r"""Every step of the preprocessing counts: $\log p(x) = \log p_Z(f(x)) + \log|\det f'(x)|$ for
    data as they come.

    The determinant is that of the Jacobian of the whole map, by autograd; no reported log-det is
    asked for.
    """
    assert (
        flow.log_prob is not None and flow.base_log_prob is not None and flow.jacobian is not None
    )
    call = getattr(flow, flow.normalizing)
    if call is None:
        raise Unsupported(f"it has no {flow.normalizing} to map data to latents")
    rows = len(batch.x)
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    latents = call(batch.x, batch.context).value
    base = np.asarray(flow.base_log_prob(latents, batch.context), dtype=np.float64).reshape(rows)
    jacobian = flow.jacobian(flow.normalizing, batch.x, batch.context)
    determinant = log_abs_det(jacobian)
    return Residual(
        density - base - determinant,
        scale=4 + np.abs(base) + np.abs(determinant),
        decidable=finite_rows(base) & resolvable(jacobian, determinant),
        observed={"log p(x)": density, "base + log|det J|": base + determinant},
    )


@law(
    "preprocessing/affine-scale-bits",
    given="data",
    local=False,
    effort=4,
    applies=exact_log_det,
    source="change of variables: the density of ax is p(x) / |a|^D",
)
def affine_scale_bits(flow: DensityRescaled, batch: Batch) -> Residual:
    r"""Multiplying the data by $a$ changes log-densities by exactly $-D \log|a|$, hence bits per
    dimension by $\log_2|a|$.
    """

    rows, factor = len(batch.x), FACTORS[batch.seed % len(FACTORS)]
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    scaled = np.asarray(
        flow.rescaled(factor * batch.x, factor, batch.context), dtype=np.float64
    ).reshape(rows)
    change = -math.prod(flow.density_shape) * math.log(factor)
    return Residual(
        scaled - density - change,
        scale=4 + np.abs(density) + abs(change),
        decidable=finite_rows(density),
        observed={
            "log p(x)": density,
            "log p of the scaled data": scaled,
            "factor": np.full(rows, factor),
        },
    )


@law(
    "preprocessing/logit-derivative",
    given="data",
    local=False,
    effort=5,
    applies=is_logit,
    source=REAL_NVP,
)
def logit_derivative(flow: Bijection, batch: Batch) -> Residual:
    r"""The log-det of $h = \mathrm{logit}(\alpha + (1 - 2\alpha)x/b)$ is
    $\sum_i \log\frac{1 - 2\alpha}{b} + \log(1 + e^{h_i}) + \log(1 + e^{-h_i})$.
    """
    known, call = known_to(flow), getattr(flow, flow.normalizing)
    if call is None:
        raise Unsupported(f"it has no {flow.normalizing} to map data to latents")
    out = call(batch.x, batch.context)
    found = reported(flow, out, len(batch.x))
    x = batch.x.reshape(len(batch.x), -1).astype(np.longdouble)
    # Each end has its own distance, which 1 - p would lose.
    low, high = known.alpha + known.slope * x, known.alpha + known.slope * (known.bound - x)
    terms = math.log(known.slope) - np.log(low) - np.log(high)
    expected = terms.sum(1).astype(np.float64)
    return Residual(
        found - expected,
        scale=4 + np.abs(terms).sum(1).astype(np.float64),
        decidable=finite_rows(expected),
        observed={"log-det": found, "closed form": expected},
    )


def closed_range(flow: Flow) -> str | None:
    """With a positive alpha the ends of the range are inside the domain."""
    known = flow.preprocessing
    if known is None or not known.alpha > 0:
        return "no preprocessing that keeps the ends of the range finite is known of it"
    return None


@law(
    "preprocessing/logit-boundary",
    given="data",
    tolerance=EXACT,
    local=False,
    size=4,
    scales=(0.0,),
    effort=2,
    applies=closed_range,
    source=f"{REAL_NVP}; the largest noise rounds to the next level, so that data reach both ends",
)
def logit_boundary(flow: Bijection, batch: Batch) -> Residual:
    r"""The ends of the data's range are data: values, log-dets and gradients are finite at $0$ and
    $b$, and beside $b$.
    """

    known, call = known_to(flow), getattr(flow, flow.normalizing)
    if call is None:
        raise Unsupported(f"it has no {flow.normalizing} to map data to latents")
    kind = np.dtype(flow.dtype).type
    ends = (0.0, float(np.nextafter(kind(known.bound), kind(0))), known.bound)
    x = np.array(batch.x, dtype=np.float64)
    rows = x.reshape(len(x), -1)
    for place, row in enumerate(rows):
        # One row of each end alone, and one with all of them among other data.
        row[:] = ends[place] if place < len(ends) else row
    rows[-1][: len(ends)] = ends[: rows.shape[1]]
    x = rows.reshape(x.shape)
    out = call(x, batch.context)
    values = np.asarray(out.value, dtype=np.float64).reshape(len(x), -1)
    ladj = np.zeros(len(x)) if out.ladj is None else reported(flow, out, len(x))
    slopes = flow.vjp(flow.normalizing, x, batch.context, np.ones(values.shape), np.ones(len(x)))
    good = finite_rows(values, ladj, np.asarray(slopes).reshape(len(x), -1))
    return flags(
        ~good,
        len(x),
        "values, log-dets or gradients are not finite at the ends of the range of the data",
        observed={"x": x, "latent": values, "log-det": ladj},
    )


@law(
    "preprocessing/logit-sigmoid-roundtrip",
    given="data",
    tolerance=BOUND,
    local=False,
    effort=4,
    applies=is_logit,
    source="the sigmoid undoes the logit to the roundoff of p, in float32 as well",
)
def logit_sigmoid_roundtrip(flow: Invertible, batch: Batch) -> Residual:
    r"""The sigmoid undoes the logit on the range of the data:
    $|f^{-1}(f(x)) - x| \le 32\,u\,b/(1 - 2\alpha)$, in float32 too.
    """

    known = known_to(flow)
    back = "inverse" if flow.normalizing == "forward" else "forward"
    if getattr(flow, back) is None:
        raise Unsupported(f"it has no {back}")
    margin = 0.0 if known.alpha > 0 else MARGIN * known.bound
    x = np.clip(batch.x, margin, known.bound - margin).astype(np.float32).astype(np.float64)
    ratios, returned = [], {}
    for dtype in ("float64", "float32") if flow.dtype == "float64" else ("float32",):
        latents, error = attempt(flow.calls[flow.normalizing].under, x, batch.context, dtype=dtype)
        if error:
            if dtype == flow.dtype:
                raise Unsupported(f"it raises {error}")
            continue
        again = flow.call(
            back, np.asarray(latents.value, dtype=np.float64), batch.context, dtype=dtype
        ).value
        # The latent was rounded to its dtype, and is handed back in it.
        allowed = ROUNDTRIP_FACTOR * float(np.finfo(dtype).eps) / 2 / known.slope
        ratios.append(
            rows_max(np.nan_to_num(np.asarray(again, dtype=np.float64) - x, nan=np.inf)) / allowed
        )
        returned[f"in {dtype}"] = np.asarray(again)
    return Residual(np.stack(ratios, 1), allowed=1.0, observed={"x": x, **returned})


def levels_of(flow: Flow) -> int:
    """The number of levels that are dequantized."""
    return int(known_to(flow).bins or 0)


def has_levels(flow: Flow) -> str | None:
    """Dequantization is judged where the number of levels is known."""
    known = flow.preprocessing
    return None if known is not None and known.bins else "its number of levels is not known"


def dequantized(flow: Flow, levels: Array, noise: Array, dtype: str) -> Array:
    """Levels with noise, as one number per event's entry, ``(batch, entries)``; levels and noise
    are one per event.
    """

    shape = (len(levels), *[1] * len(flow.event_shape))
    whole = np.ones((len(levels), *flow.event_shape))
    given = (levels.reshape(shape) * whole, noise.reshape(shape) * whole)
    found = np.asarray(flow.dequantize(*given, dtype))
    if found.shape != whole.shape:
        raise Unsupported(f"levels of shape {whole.shape} were dequantized to shape {found.shape}")
    return found.reshape(len(levels), -1)


@law(
    "preprocessing/dequantize-floor",
    former="preprocessing/dequantise-floor",
    tolerance=EXACT,
    local=False,
    size=1,
    scales=(0.0,),
    effort=1,
    applies=has_levels,
    source=THEIS,
)
def dequantize_floor(flow: Dequantizer, batch: Batch) -> Residual:
    r"""Rounding down undoes dequantization: $\lfloor x \rfloor = k$ for every level $k$ and noise
    in $[0, 1)$, in float32 too.
    """
    known = known_to(flow)
    width = known.bound / levels_of(flow)
    wrong: list[tuple[str, float, float, float]] = []
    for dtype in ("float64", "float32"):
        kind = np.dtype(dtype).type
        draws = (
            0.0,
            0.5,
            float(np.nextafter(kind(1), kind(0))),
            *np.random.default_rng(batch.seed).random(2),
        )
        pairs = np.array(list(product(range(levels_of(flow)), draws)))
        levels, noise = pairs[:, 0], pairs[:, 1].astype(kind).astype(np.float64)
        # In float32, noise just below 1 may have been rounded to 1.
        noise = np.minimum(noise, draws[2])
        x = dequantized(flow, levels, noise, dtype).astype(np.float64)
        missed = np.floor(x / width) != levels[:, None]
        for place in np.flatnonzero(missed.any(1))[:1]:
            wrong.append((dtype, levels[place], noise[place], x[place][missed[place]][0]))
    told = {}
    if wrong:
        names = ("level", "noise", "dequantized")
        told = {
            name: np.full(len(batch.x), value)
            for name, value in zip(names, wrong[0][1:], strict=True)
        }
    note = f"in {wrong[0][0]}" if wrong else ""
    return flags(bool(wrong), len(batch.x), note, observed=told)


@law(
    "preprocessing/dequantize-bound",
    former="preprocessing/dequantise-bound",
    tolerance=BOUND,
    local=False,
    size=1,
    scales=(0.0,),
    effort=1,
    applies=has_levels,
    source=f"{THEIS}, by Jensen's inequality",
)
def dequantize_bound(flow: Dequantizer, batch: Batch) -> Residual:
    r"""The mean log-density of dequantized data bounds the log-probability of the level:
    $E_u \log p(k + u) \le \log \int_0^1 p(k + u)\,du$.

    $p$ are narrow normal densities within the level, for which only noise that fills it keeps the
    bound.
    """
    known, dtype = known_to(flow), flow.dtype
    width, level = known.bound / levels_of(flow), float(batch.seed % levels_of(flow))
    unit, weights = np.polynomial.legendre.leggauss(NODES)
    noise, weights = (unit + 1) / 2, weights / 2
    x = dequantized(flow, np.full(NODES, level), noise, dtype).astype(np.float64) / width - level
    worst, told = -np.inf, (0.0, 0.0)
    for center in CENTERS:
        z = (x - center) / SPREAD
        mean = float(
            (weights[:, None] * (-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - math.log(SPREAD)))
            .sum(0)
            .max()
        )
        ends = [float(erf((end - center) / (SPREAD * math.sqrt(2)))) for end in (0.0, 1.0)]
        exact = math.log((ends[1] - ends[0]) / 2)
        if mean - exact > worst:
            worst, told = mean - exact, (mean, exact)
    return Residual(
        np.full(len(batch.x), max(worst, 0.0)),
        allowed=BOUND_ERROR[dtype],
        observed={
            "mean log-density": np.full(len(batch.x), told[0]),
            "log-probability of the level": np.full(len(batch.x), told[1]),
        },
    )
