"""Stochastic differential equations: mean and variance of noised data solve the moment equations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.laws.process.process_law import ENTRIES, TIMES, process_law, shares, slope_compared
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import Diffusing

# How far drift may be from a straight line, relatively.
STRAIGHT = 1e-6
# A share of time at which nothing has happened yet, and how far data may have moved by then.
FIRST, MOVED = 1e-6, 1e-2


@process_law(
    "process/moments",
    version=2,
    source="Sarkka and Solin 2019, Applied stochastic differential equations, section 6.1; Song et al. 2021 "
    "(arXiv:2011.13456), appendix B: moments of dx = f x dt + g dW",
)
def moments_solve_the_equation(flow: Diffusing, batch: Batch) -> Residual:
    r"""The mean m and the variance v of noised data solve the moment equations of the stochastic
    differential equation, $m' = f(m, t)$ and $v' = 2 f' v + g^2$, for a drift linear in each entry, and the
    mean begins at the data. With noise at time zero, $v' = 2 f' v - g^2$.
    """
    times, rng = shares(batch), np.random.default_rng(batch.seed + 1)
    x = rng.standard_normal((TIMES, ENTRIES))

    def moments_at(points: Array, at: Array) -> Array:
        return np.asarray(flow.moments(points, at), np.float64)

    mean, deviation, _, diffusion, end = moments_at(x, times).swapaxes(0, 1)
    slope = slope_of_drift(moments_at, times)

    def variance_at(some: Array) -> Array:
        return np.asarray((moments_at(x, some)[:, 1] ** 2).mean(1))

    # Where noise is at time zero, and data at the last, the equation is that of the way from data to noise.
    turned = bool((np.diff(variance_at(np.sort(times))) < 0).all())
    gained = -(diffusion**2) if turned else diffusion**2
    claims = {
        "mean": (moments_at(mean, times)[:, 2], lambda at: moments_at(x, at)[:, 0].mean(1)),
        "variance": (2 * slope * deviation**2 + gained, variance_at),
    }
    span = (end / times[:, None])[:, 0]  # times are shares of it
    compared = {
        name: slope_compared(measure, times, span, claim.mean(1))
        for name, (claim, measure) in claims.items()
    }
    worst, note = np.zeros(TIMES), ""
    known = np.logical_and.reduce([one.known for one in compared.values()])
    for name, one in compared.items():
        if one.off.max() > max(1.0, worst.max()):
            at = int(one.off.argmax())
            note = (
                f"the {name} changes by {one.slope[at]:.6g} a unit of time at time {end[at, 0]:.4g}, "
                f"by the equation it is {one.claim[at]:.6g}"
            )
        worst = np.maximum(worst, one.off)
    if not known.any():
        raise Undecidable("difference quotients of its moments in time do not converge")
    first = moments_at(0 * x, np.full(TIMES, FIRST))[:, 0]
    if (
        not turned
        and np.isfinite(first).all()
        and np.abs(first).max() > MOVED * max(1.0, worst.max())
    ):
        note = f"data of zero have the mean {first.flat[np.abs(first).argmax()]:.4g} at time zero"
        worst = np.maximum(worst, np.abs(first).max() / MOVED)
    return Residual(np.full(len(batch.x), worst.max()), allowed=1.0, note=note)


def slope_of_drift(moments_at: Callable[[Array, Array], Array], times: Array) -> Array:
    """The slope of a drift in each entry, ``(times, entries)``. Raises `Undecidable` if the drift is not
    linear, one entry depends on another, or the diffusion on the data.
    """
    rows = np.ones((len(times), ENTRIES))
    one = np.where(np.arange(ENTRIES) == 0, rows, 0.0)
    found = np.stack([moments_at(points, times) for points in (0 * rows, rows, 2 * rows, one)])
    none, all_ones, twice, first = found[:, :, 2]
    if np.ptp(found[:, :, 3], axis=0).max() > STRAIGHT * (1 + np.abs(found[:, :, 3]).max()):
        raise Undecidable("its diffusion depends on the data")
    slope: Array = all_ones - none
    size = 1 + np.abs(twice)
    bent = np.abs(twice - all_ones - slope) > STRAIGHT * size
    mixed = np.abs(first - none)[:, 1:] > STRAIGHT * size[:, 1:]
    if bent.any() or mixed.any():
        raise Undecidable("its drift is not linear in each entry")
    return slope
