"""Dequantization: levels plus noise are reals, without loss of information."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from flowref.laws.common.outcomes import flags
from flowref.laws.image.preprocessing import preprocessing_of
from flowref.model import BOUND, EXACT, GIVEN, Array, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Dequantizer, Flow

THEIS = (
    "Theis et al., A note on the evaluation of generative models (arXiv:1511.01844), section 3.1"
)
NODES, SPREAD, CENTERS = 64, 0.1, (0.25, 0.5, 0.75)
BOUND_ERROR = {"float64": 1e-9, "float32": 1e-3}


@requires(
    "its number of levels is not known", blocked=True, remedy="say ?preprocessing=alpha,bound,bins"
)
def has_levels(flow: Flow) -> bool:
    """The number of levels is declared."""
    declared = flow.facts.preprocessing
    return declared is not None and bool(declared.bins)


def levels_of(flow: Flow) -> int:
    """The number of levels."""
    return int(preprocessing_of(flow).bins or 0)


def dequantized(flow: Dequantizer, levels: Array, noise: Array, dtype: str) -> Array:
    """Levels plus noise, both one number per event, as ``(n, entries)``. Raises `Unsupported` if
    the shape differs.
    """
    shape = (len(levels), *[1] * len(flow.event_shape))
    whole = np.ones((len(levels), *flow.event_shape))
    reals = flow.dequantize(levels.reshape(shape) * whole, noise.reshape(shape) * whole, dtype)
    if np.shape(reals) != whole.shape:
        raise Unsupported(
            f"levels of shape {whole.shape} were dequantized to shape {np.shape(reals)}"
        )
    return np.asarray(reals).reshape(len(levels), -1)


@law(
    "dequantize/fills-the-level[floor]",
    key="preprocessing/dequantise-floor",
    tolerance=EXACT,
    local=False,
    size=1,
    scales=GIVEN,
    effort=1,
    applies=has_levels,
    source=THEIS,
)
def dequantize_floor(flow: Dequantizer, batch: Batch) -> Residual:
    r"""Rounding down undoes dequantization: $\lfloor x \rfloor = k$ for every level $k$ and noise
    in $[0, 1)$, in float32 too.
    """
    width = preprocessing_of(flow).bound / levels_of(flow)
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
        for row in np.flatnonzero(missed.any(1))[:1]:
            wrong.append((dtype, levels[row], noise[row], x[row][missed[row]][0]))
    observed = {}
    if wrong:
        names = ("level", "noise", "dequantized")
        observed = {
            name: np.full(len(batch.x), value)
            for name, value in zip(names, wrong[0][1:], strict=True)
        }
    note = f"in {wrong[0][0]}" if wrong else ""
    return flags(bool(wrong), len(batch.x), note, observed=observed)


@law(
    "dequantize/fills-the-level[bound]",
    key="preprocessing/dequantise-bound",
    tolerance=BOUND,
    local=False,
    size=1,
    scales=GIVEN,
    effort=1,
    applies=has_levels,
    source=f"{THEIS}, by Jensen's inequality",
)
def dequantize_bound(flow: Dequantizer, batch: Batch) -> Residual:
    r"""The mean log-density of dequantized data bounds the log-probability of the level: $E_u \log
    p(k + u) \le \log \int_0^1 p(k + u)\,du$.

    The $p$ are narrow normal densities within the level, for which only noise that fills it
    satisfies the bound.
    """
    from scipy.special import erf

    count, dtype = levels_of(flow), flow.dtype
    width, level = preprocessing_of(flow).bound / count, float(batch.seed % count)
    unit, weights = np.polynomial.legendre.leggauss(NODES)
    noise, weights = (unit + 1) / 2, weights / 2
    x = dequantized(flow, np.full(NODES, level), noise, dtype).astype(np.float64) / width - level
    worst, logs = -np.inf, (0.0, 0.0)
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
            worst, logs = mean - exact, (mean, exact)
    return Residual(
        np.full(len(batch.x), max(worst, 0.0)),
        allowed=BOUND_ERROR[dtype],
        observed={
            "mean log-density": np.full(len(batch.x), logs[0]),
            "log-probability of the level": np.full(len(batch.x), logs[1]),
        },
    )
