"""Statements of a scalar distribution about itself: moments, entropy and distribution function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from flowref.laws.common.cases import ONE_CONTEXT, TRAINED
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quadrature import NODES, PANELS, axis_points, where_mass_is
from flowref.laws.density.consistency import unconditional, unconditional_or_bound
from flowref.laws.density.draws import repeats
from flowref.laws.density.moments import StatingDensity, has_density, misstated, stated_numbers
from flowref.model import (
    ADVICE,
    BOUND,
    GIVEN,
    VOLUME,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Distribution, Flow


class DistributedDensity(Density, Distribution, Protocol):
    """A density with its distribution function."""


NAMES = ("mean", "variance", "entropy")
# Rounding of an integral; truncation of formulas (libraries use a short series near special
# parameter values); and the multiple of the disagreement of grids that the error may be.
ROUNDING, SERIES = {"float64": 1e-8, "float32": 1e-3}, {"float64": 1e-6, "float32": 1e-3}
QUADRATURE_FACTOR = 20.0
# A larger error leaves the integral undecided; the deviation of the mass from one that is
# permitted.
UNSETTLED, MASS_MISSED = 1e-3, 1e-6
# Initial intervals: between every SPARED-th point, and beyond them OUTWARD steps between these
# multiples of the spread. The mass beyond may be BEYOND times that of the outermost interval.
SPARED, REACHED, OUTWARD, TINY, BEYOND = 16, (0.1, 1e6), 32, 1e-6, 4.0
# How near an interval of angles must be to the length 2 pi.
AROUND = 1e-5
# Intervals are bisected if two rules disagree, one of which includes the ends: only that one
# detects a kink beyond the last node of the other. Number of nodes and of bisections, and the
# required agreement.
INNER, WITH_ENDS, HALVINGS, AGREED = (10, 15), 12, 26, 1e-12


# Distances beyond the ends of a support at which a distribution function is evaluated, in spreads.
PAST = (0.1, 1.0, 3.0)
# The smallest number at which a density is evaluated that rejects zero.
FIRST = 1e-300


@requires("it is a distribution of vectors")
def univariate(flow: Flow) -> bool:
    """Events are single numbers."""
    return math.prod(flow.density_shape) == 1


def _marginal_support(flow: Density) -> Support:
    return (flow.density_support.coordinates or (flow.density_support,))[0]


@law(
    "density/stated[moments]",
    key="density/stated-moments",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=1,
    effort=1,
    applies=univariate & has_density & unconditional_or_bound,
    cases=(ONE_CONTEXT,),
    version=3,
    source="mean, variance and differential entropy are integrals of the density",
)
def stated_moments(flow: StatingDensity, batch: Batch) -> Residual:
    r"""The stated mean, variance and entropy are those of the density: $\int x p$, $\int (x -
    \mu)^2 p$, $-\int p \log p$ (quadrature, one dimension).

    Skipped if the integral does not converge, as the variance of heavy tails. On a circle the mean
    may be the mean direction, and the variance one minus the length of the mean vector. No
    variance is negative, and no mean lies outside of the support. Moments have the shape of an
    event, are right for each copy in a batch, and finite if tails are light.
    """
    flat, flags = stated_numbers(flow)
    stated = flat[:3]
    if note := impossible(flow, stated):
        return Residual(np.full(len(batch.x), np.inf), allowed=1.0, note=note)
    if note := misstated(flow, flags, where_mass_is(flow, batch, 1)):
        return Residual(np.full(len(batch.x), np.inf), allowed=1.0, note=note)
    grids = [grid_moments(flow, batch, nodes) for nodes in NODES[1]]
    around = direction(flow, grids[-1])
    grids = [grid[:4] for grid in grids]
    values = grids[-1]
    error = np.maximum(np.abs(grids[2] - grids[1]), np.abs(grids[1] - grids[0]) / 4)
    if not abs(values[0] - 1) <= MASS_MISSED:  # kinks between the nodes
        if not flow.density_support.has_end and repeats(flow, batch):
            raise Undecidable("the log-density is periodic, as for angles: it has no mass")
        values, error = refined(flow, batch, np.isfinite(stated))
    if not abs(values[0] - 1) <= MASS_MISSED:
        raise Undecidable(f"the density integrates to {values[0]:.6g}: its moments say nothing")
    found, error = values[1:], error[1:]
    # Without a stated variance, that of the grid scales the mean.
    spread = math.sqrt(max(found[1] if np.isfinite(found[1]) else grids[-1][2], 0.0))
    scale = np.array([spread + abs(found[0]), found[1], 1 + abs(found[2])])
    settled = np.isfinite(stated) & np.isfinite(found) & (error <= UNSETTLED * scale / 20)
    if not settled.any():
        raise Undecidable("it states no mean, variance or entropy that its density determines")
    allowed = QUADRATURE_FACTOR * error + SERIES[flow.dtype] * scale
    off = np.where(settled, np.abs(stated - found), 0.0)
    if around is not None:
        off[:2] = np.fmin(off[:2], np.abs(stated[:2] - around))
    worst = int(np.argmax(off / np.where(settled, allowed, 1.0)))
    return Residual(
        np.full(len(batch.x), off[worst]),
        allowed=float(allowed[worst]),
        note=f"the {NAMES[worst]} is stated as {stated[worst]:.6g}, that of its density is {found[worst]:.6g}",
        observed={
            "stated": np.full(len(batch.x), stated[worst]),
            "of the density": np.full(len(batch.x), found[worst]),
        },
    )


def impossible(flow: Density, stated: Array) -> str:
    """The error message for a negative variance or a mean outside of the support; empty if there
    is none.
    """
    mean, variance = map(float, stated[:2])
    if variance < 0:
        return f"the variance is stated as {variance:.6g}: no variance is negative"
    support = _marginal_support(flow)
    around = abs(support.high - support.low - 2 * math.pi) < AROUND
    if math.isfinite(mean) and not around and not support.low <= mean <= support.high:
        return f"the mean is stated as {mean:.6g}, outside of the support"
    return ""


def grid_moments(flow: Density, batch: Batch, nodes: int) -> Array:
    """Mass, mean, variance, entropy and the mean of (cos x, sin x) on one grid, ``(6,)``."""
    samples = where_mass_is(flow, batch, 1)
    support = _marginal_support(flow)
    x, weight = axis_points(flow, support, samples[:, 0], nodes, PANELS[1])
    log_p = density_at(flow, x)
    with np.errstate(all="ignore"):
        p = np.where(log_p > -np.inf, np.exp(log_p), 0.0) * weight
        mean = float((p * x).sum())
        entropy = -float(np.where(p > 0, p * log_p, 0.0).sum())
        spread = (p * (x - mean) ** 2).sum()
        circle = (p * np.cos(x)).sum(), (p * np.sin(x)).sum()
        return np.array([p.sum(), mean, spread, entropy, *circle])


def refined(flow: Density, batch: Batch, stated: Array) -> tuple[Array, Array]:
    """Mass, mean, variance and entropy by adaptive bisection, and their errors, ``(4,)`` each,
    assuming that the tail holds little more than the outermost intervals. ``stated``: which of
    mean, variance and entropy are needed; others are nan, since their integrals may diverge.
    """
    samples = np.sort(where_mass_is(flow, batch, 1)[:, 0])
    support = _marginal_support(flow)
    spread = max(float(np.ptp(np.quantile(samples, (0.1, 0.9)))), TINY)
    steps = spread * np.geomspace(*REACHED, OUTWARD)
    edges = np.concatenate([samples[0] - steps, samples[::SPARED], samples[-1] + steps])
    ends = [end for end in (support.low, support.high) if math.isfinite(end)]
    edges = np.unique(np.concatenate([edges[(edges > support.low) & (edges < support.high)], ends]))

    def integral(weight: Callable[[Array, Array], Array]) -> tuple[float, float]:
        def weighted(x: Array) -> Array:
            log_p = density_at(flow, x)
            with np.errstate(all="ignore"):
                return np.where(log_p > -np.inf, np.exp(log_p) * weight(x, log_p), 0.0)

        mass, error = between(weighted, edges)
        beyond = BEYOND * float(np.abs(mass[[0, -1]]).sum()) if len(ends) < 2 else 0.0
        return float(mass.sum()), float(error.sum()) + beyond

    unknown = (math.nan, math.nan)
    mass = integral(lambda x, log_p: np.ones_like(x))
    mean = integral(lambda x, log_p: x) if stated[:2].any() else unknown
    about = integral(lambda x, log_p: (x - mean[0]) ** 2) if stated[1] else unknown
    entropy = integral(lambda x, log_p: -log_p) if stated[2] else unknown
    values = np.array([mass, mean, about, entropy])
    return values[:, 0], values[:, 1]


def direction(flow: Density, grid: Array) -> Array | None:
    """The mean direction and the circular variance of a density on an interval of length 2 pi;
    else None.
    """
    support = _marginal_support(flow)
    if not abs(support.high - support.low - 2 * math.pi) < AROUND:
        return None
    cosine, sine = grid[4:]
    mean = math.atan2(sine, cosine)
    turns = math.ceil((support.low - mean) / (2 * math.pi))
    return np.array([mean + 2 * math.pi * turns, 1 - math.hypot(cosine, sine)])


def density_at(flow: Density, x: Array) -> Array:
    """The log-density at numbers, ``(n,)``."""
    given = x.reshape(len(x), *flow.density_shape)
    values, refused = attempt(flow.log_prob, given, None)
    if refused:  # an end that does not belong to the support
        support = _marginal_support(flow)
        low, high = np.nextafter(support.low, np.inf), np.nextafter(support.high, -np.inf)
        values = flow.log_prob(np.clip(given, FIRST if support.low == 0 else low, high), None)
    log_p = np.asarray(values, np.float64)
    return np.where(np.isnan(log_p.reshape(len(x))), -np.inf, log_p.reshape(len(x)))


@law(
    "density/distribution-function",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=16,
    effort=2,
    applies=univariate & has_density & unconditional_or_bound,
    version=4,
    source="F(b) - F(a) is the integral of the density from a to b",
    cases=(TRAINED, ONE_CONTEXT),
)
def distribution_function(flow: DistributedDensity, batch: Batch) -> Residual:
    r"""The distribution function is the integral of the density: $F(b) - F(a) = \int_a^b p(x)\,dx$
    between any two points, and $0 \le F \le 1$. So are the exponential of its logarithm and one minus the
    survival function if they are offered, and what inverses of these and a median imply.
    """
    order = np.argsort(batch.x.reshape(len(batch.x)))
    x = batch.x.reshape(len(batch.x))[order]
    reached, _ = function_at(flow, x)
    mass, error = between(lambda points: np.exp(density_at(flow, points)), x)
    risen, note = np.diff(reached), ""
    for index, other in enumerate(other_distribution_functions(flow, x)):
        # A function that is off by a constant rises as it should.
        rise = np.diff(other) + np.where(np.isfinite(reached), other - reached, 0.0)[1:]
        worse = np.abs(rise - mass) > np.abs(risen - mass)
        if (worse & np.isfinite(risen)).any():
            risen = np.where(worse, rise, risen)
            note = f"by function {index + 1} besides cdf, such as log_cdf or a survival function"
    if (off := _outside_probabilities(flow, batch, reached)) > ROUNDING[flow.dtype]:
        risen = risen + off
        note = "the distribution function leaves [0, 1]"
    gap = np.abs(risen - mass)
    allowed = QUADRATURE_FACTOR * error + ROUNDING[flow.dtype]
    known = np.isfinite(mass) & np.isfinite(error) & np.isfinite(gap) & (allowed < UNSETTLED)
    if not (known & (gap > allowed)).any():
        note = ""

    def per_point(values: Array, first: float) -> Array:
        """Values of the intervals, assigned to their end points in the order of the batch."""
        out = np.full(len(x), first)
        out[order[1:]] = values
        return out

    return Residual(
        per_point(np.where(known, gap, 0.0), 0.0),
        allowed=per_point(np.where(known, allowed, 1.0), 1.0),
        decidable=per_point(known.astype(float), 0.0) > 0,
        observed={
            "F(b) - F(a)": per_point(risen, 0.0),
            "integral of the density": per_point(mass, 0.0),
        },
        note=note,
    )


def _outside_probabilities(flow: DistributedDensity, batch: Batch, reached: Array) -> float:
    """How far the distribution function leaves [0, 1] at points and at declared ends of the support, as
    one does that is off by a constant; zero for angles, where it may start anywhere in a turn.
    """
    support = _marginal_support(flow)
    if abs(support.high - support.low - 2 * math.pi) < AROUND:
        return 0.0
    ends = [end for end in (support.low, support.high) if math.isfinite(end)]
    if ends and flow.facts.declared:
        at_ends, refused = attempt(flow.cdf, np.array(ends).reshape(-1, *flow.density_shape))
        reached = reached if refused else np.append(reached, np.asarray(at_ends, np.float64))
    known = reached[np.isfinite(reached)]
    off = float(np.maximum(known - 1.0, -known).max(initial=0.0))
    return 0.0 if off > 0 and repeats(flow, batch) else off


def other_distribution_functions(flow: Distribution, x: Array) -> list[Array]:
    """The distribution function by other methods (log_cdf, survival function), ``(n,)`` each."""
    if "functions" not in flow.calls:
        return []
    values, error = attempt(flow.calls["functions"], x.reshape(len(x), *flow.density_shape))
    return [] if error else list(np.asarray(values, np.float64).reshape(len(x), -1).T)


def function_at(flow: Distribution, x: Array) -> tuple[Array, Array]:
    """The distribution function, nan where it rejects points, and the accepted rows; entry by
    entry for points with several entries. Raises its own error if it rejects all, and
    `Unsupported` if it is one number for several entries.
    """
    given = x.reshape(len(x), *flow.density_shape)
    values, error = attempt(flow.cdf, given)
    refused = np.zeros(len(x), dtype=bool)
    if not error and np.size(values) != x.size:
        raise Unsupported("its distribution function is that of several coordinates", blocked=False)
    if not error:
        return np.asarray(values, np.float64).reshape(x.shape), refused
    reached = np.full(x.shape, np.nan)
    for row in range(len(x)):
        one, words = attempt(flow.cdf, given[row : row + 1])
        refused[row] = bool(words)
        if not words:
            reached[row] = np.asarray(one, np.float64).reshape(x.shape[1:])
    if refused.all():
        raise RuntimeError(error)
    return reached, refused


@law(
    "density/support[distribution-function]",
    key="density/function-outside",
    about=VOLUME,
    points="data",
    force=ADVICE,
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=16,
    effort=1,
    applies=univariate & has_density & unconditional,
    source="F(x) = P(X <= x) is defined for every number: that of HalfNormal is negative below zero (torch issue 46350)",
)
def function_outside(flow: DistributedDensity, batch: Batch) -> Residual:
    """Beyond its declared support a distribution function is 0 below and 1 above, or raises."""
    support = _marginal_support(flow)
    ends = ((support.low, -1.0, 0.0), (support.high, 1.0, 1.0))
    if not flow.facts.declared or not any(math.isfinite(end) for end, _, _ in ends):
        raise Unsupported("its support has no end that is declared", blocked=False)
    spread = max(float(np.ptp(np.quantile(batch.x, (0.1, 0.9)))), TINY)
    worst, note = 0.0, ""
    for end, sign, expected in ends:
        for step in PAST if math.isfinite(end) else ():
            point = end + sign * step * spread
            result, refused = attempt(flow.cdf, np.full((1, *flow.density_shape), point))
            value = np.nan if refused else float(np.asarray(result, np.float64).reshape(-1)[0])
            off = abs(value - expected)
            if np.isfinite(off) and off > worst:
                worst, note = off, f"at {point:.4g}, where its support has ended, it is {value:.6g}"
    allowed = ROUNDING[flow.dtype]
    return Residual(
        np.full(len(batch.x), worst), allowed=allowed, note=note if worst > allowed else ""
    )


def between(density: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    """The integrals of a density between neighbours of sorted points ``(n,)``, and their errors,
    ``(n - 1,)`` each, by adaptive bisection.
    """
    mass, error = np.zeros(len(x) - 1), np.zeros(len(x) - 1)
    owner, low, high = np.arange(len(x) - 1), x[:-1], x[1:]
    rules = [with_ends(WITH_ENDS), *map(np.polynomial.legendre.leggauss, INNER)]
    for level in range(HALVINGS + 1):
        if not len(owner):
            break
        half, middle = (high - low) / 2, (high + low) / 2
        parts = []
        for unit, weight in rules:
            points = middle[:, None] + half[:, None] * unit
            points = np.clip(points, low[:, None], high[:, None])  # rounding may leave the support
            value = density(points.ravel()).reshape(points.shape)
            parts.append((value * weight).sum(1) * half)
        gap = np.ptp(parts, axis=0)
        good = (gap <= AGREED) | (level == HALVINGS)
        np.add.at(mass, owner[good], parts[-1][good])
        np.add.at(error, owner[good], gap[good])
        owner, low, middle, high = (a[~good] for a in (owner, low, middle, high))
        owner = np.concatenate([owner, owner])
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return mass, error


def with_ends(count: int) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss-Lobatto rule on [-1, 1], ``(count,)`` each."""
    basis = np.polynomial.legendre.Legendre.basis(count - 1)
    nodes = np.concatenate([[-1.0], np.sort(basis.deriv().roots().real), [1.0]])
    return nodes, 2 / (count * (count - 1) * basis(nodes) ** 2)
