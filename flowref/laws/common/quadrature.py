"""Total mass of a density in one and two dimensions: composite Gauss-Legendre quadrature with an
error estimate.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.model import Array, Batch, Support, Undecidable
from flowref.model.abilities import Flow

# Nodes per panel of the three grids, and panels per axis, by dimension.
NODES = {1: (8, 12, 16), 2: (4, 6, 8)}
PANELS = {1: 96, 2: 28}
# Nodes and panels of a fourth grid, by dimension. Its panels end elsewhere, so it detects a kink
# between an end of the other panels and their first nodes.
ELSEWHERE = {1: (8, 131), 2: (4, 37)}
MASS_FLOOR = 1e-9
# Nodes and panels of a coarse grid for comparing two nearly equal densities, whose grid errors
# cancel.
COARSE = {1: (8, 24), 2: (6, 10)}
# A sample whose density is this many times that of every grid point marks a missed peak.
MISSED_PEAK = 3.0
CHUNK = 16384


def total_mass(flow: Flow, batch: Batch) -> tuple[float, float]:
    """The integral of the density over its support, and the largest disagreement of four grids.

    Unbounded axes are mapped to (-1, 1) by x = m + s t / (1 - t^2), with m and s from samples if
    there are any; panels end at the knots. Raises `Undecidable` if samples show a peak between the
    grid points.
    """
    size = math.prod(flow.density_shape)
    samples = where_mass_is(flow, batch, size)
    peak = _peak(flow, samples, batch)
    masses, highest = [], -np.inf
    for nodes, panels in (*((nodes, PANELS[size]) for nodes in NODES[size]), ELSEWHERE[size]):
        sets = flow.density_support.coordinates or (flow.density_support,) * size
        axes = [
            axis_points(flow, sets[axis], samples[:, axis], nodes, panels) for axis in range(size)
        ]
        mass, top = _integrate(flow, axes, batch)
        masses.append(mass)
        highest = max(highest, top)
    if peak > highest + MISSED_PEAK:
        raise Undecidable("the density has a peak that the quadrature does not resolve")
    coarse = max(abs(masses[1] - masses[0]), abs(masses[3] - masses[2]))
    error = max(abs(masses[2] - masses[1]), coarse / 4)
    return masses[2], error


def mass_apart(flow: Flow, other: Flow, batch: Batch) -> float:
    """The mass of a density minus that of a nearly equal one, on a coarse grid."""
    size = math.prod(flow.density_shape)
    samples = where_mass_is(flow, batch, size)
    nodes, panels = COARSE[size]
    sets = flow.density_support.coordinates or (flow.density_support,) * size
    axes = [axis_points(flow, sets[axis], samples[:, axis], nodes, panels) for axis in range(size)]
    (mass, _), (beside, _) = (_integrate(one, axes, batch) for one in (flow, other))
    return mass - beside


def where_mass_is(flow: Flow, batch: Batch, size: int) -> Array:
    """Points ``(size, d)`` that cover the mass: samples, or ordinary points of the support if
    sampling raises.
    """
    if "sample" in flow.calls and flow.context_shape is None:
        try:
            drawn = np.asarray(
                flow.calls["sample"](512, batch.seed, None), dtype=np.float64
            ).reshape(512, size)
            if np.isfinite(drawn).all():
                return drawn
        except Exception:  # failures of the sampler are reported by sampling laws
            pass
    from flowref.model import draw_points

    return draw_points(
        flow.density_support, (512, *flow.density_shape), np.random.default_rng(0)
    ).reshape(512, size)


def _peak(flow: Flow, samples: Array, batch: Batch) -> float:

    context = None if batch.context is None else np.repeat(batch.context[:1], len(samples), 0)
    log_p = np.asarray(
        flow.calls["log_prob"](samples.reshape(-1, *flow.density_shape), context), dtype=np.float64
    )
    finite = log_p[np.isfinite(log_p)]
    return float(finite.max()) if finite.size else -np.inf


def axis_points(
    flow: Flow, support: Support, samples: Array, nodes: int, panels: int
) -> tuple[Array, Array]:
    """Points and weights along one axis, ``(nodes * panels,)`` each."""
    middle = float(np.median(samples))
    spread = max(float(np.quantile(samples, 0.9) - np.quantile(samples, 0.1)) / 2, 1e-6)
    unit, weight = np.polynomial.legendre.leggauss(nodes)
    knots = [s * k for k in flow.facts.knots for s in (1.0, -1.0)]
    if math.isfinite(support.low) and math.isfinite(support.high):
        ends = np.linspace(support.low, support.high, panels + 1)
        ends = np.unique(
            np.concatenate([ends, [k for k in knots if support.low < k < support.high]])
        )
        half, center = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
        return (center[:, None] + half[:, None] * unit).ravel(), (half[:, None] * weight).ravel()
    if math.isfinite(support.low) or math.isfinite(support.high):
        end, sign = (support.low, 1.0) if math.isfinite(support.low) else (support.high, -1.0)
        spread = max(float(np.median(np.abs(samples - end))), 1e-6)
        ends = _with_knots(
            0.0, 1.0, panels, [(k - end) * sign / spread for k in knots], lambda u: u / (1 + u)
        )
        t, w = _panels(ends, unit, weight)
        return end + sign * spread * t / (1 - t), w * spread / (1 - t) ** 2

    def back(u: float) -> float:
        return u and (math.sqrt(1 + 4 * u * u) - 1) / (2 * u)

    ends = _with_knots(-1.0, 1.0, panels, [(k - middle) / spread for k in knots], back)
    t, w = _panels(ends, unit, weight)
    return middle + spread * t / (1 - t**2), w * spread * (1 + t**2) / (1 - t**2) ** 2


def _with_knots(low: float, high: float, panels: int, knots: list[float], back: object) -> Array:
    mapped = [back(k) for k in knots if k > 0 or low < 0]  # type: ignore[operator]  # a function of one number
    return np.unique(
        np.concatenate([np.linspace(low, high, panels + 1), [m for m in mapped if low < m < high]])
    )


def _panels(ends: Array, unit: Array, weight: Array) -> tuple[Array, Array]:
    half, center = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    return (center[:, None] + half[:, None] * unit).ravel(), (half[:, None] * weight).ravel()


def _integrate(flow: Flow, axes: list[tuple[Array, Array]], batch: Batch) -> tuple[float, float]:
    """The weighted sum of the density over the product grid, and the largest log-density. Raises
    `Unsupported` if needed points are rejected.
    """
    grids = np.meshgrid(*(points for points, _ in axes), indexing="ij")
    x = np.stack([grid.ravel() for grid in grids], axis=1)
    log_w = np.sum(
        np.meshgrid(*(np.log(weights) for _, weights in axes), indexing="ij"), axis=0
    ).ravel()
    total, highest = 0.0, -np.inf
    for start in range(0, len(x), CHUNK):
        chunk = x[start : start + CHUNK]
        context = None if batch.context is None else np.repeat(batch.context[:1], len(chunk), 0)
        found, error = attempt(
            flow.calls["log_prob"], chunk.reshape(-1, *flow.density_shape), context
        )
        if found is None:  # far out it may overflow and reject non-finite numbers
            raise Undecidable(f"it refuses some of the points that are needed: {error}")
        log_p = np.asarray(found, dtype=np.float64)
        log_p = np.where(np.isnan(log_p.reshape(-1)), -np.inf, log_p.reshape(-1))
        terms = np.exp(log_p + log_w[start : start + CHUNK])
        total += float(terms[np.isfinite(terms)].sum())
        highest = max(highest, float(log_p.max(initial=-np.inf)))
    return total, highest
