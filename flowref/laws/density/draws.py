"""Samples of a density with their contexts, and the log-density at other points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import affordable_row_count, measured_share, stepwise
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import center_and_spread
from flowref.model import Array, Batch, Undecidable, Unsupported, seed_of
from flowref.model.abilities import Density, Flow, Sampler, offers


class SampledDensity(Density, Sampler, Protocol):
    """A density with a sampler."""


# Samples that place and scale the frame; samples by which laws judge, for flows with this many
# operations and entries; and the factor for confirming a violation.
CONTEXTS = 8
PILOT, COUNT, LEAST = 2_000, 16_000, 1_000
# The least number for step-by-step samplers: means of that many terms are normal.
FEWEST = 400
# For expensive samplers, if laws use samples only: all share the same ones.
ALONE = 4
OPERATIONS, ENTRIES, MORE = 200, 80_000, 4
# Larger events are scaled per entry, since their covariance would be mostly noise.
CORRELATED = 64
# The largest number of atoms, the number of other values that must occur, the distance from an end
# relative to the spread, and the jump of the log-density at an atom.
MOST_ATOMS, MIXED, BESIDE_END, JUMP = 8, 10, 1e-6, 1e-3
FLAT, CLIP, REPEATED, LOST = 1e-8, 5.0, 0.9, 1e-3
# Calls used to locate rejected points; characters of a quoted error.
CALLS, QUOTED = 64, 100
# Periods of angles in common units.
PERIODS = (math.pi, 2 * math.pi, 1.0, 2.0, 24.0, 180.0, 360.0)
# Multiples of a period that leave the density unchanged; a single one may do so by accident.
TURNS = (1, 2, -1)
# A width that is no period; the number of coordinates up to which each is tried, and the number
# tried of more.
NO_PERIOD, COORDINATES, SOME = 0.731, 64, 4
# A point is ill-conditioned if the log-density moves by so much when the point moves by this
# relative amount, far above rounding; and the factor by which rounding may then move it.
UNSETTLED, JITTER = 0.01, {"float64": 1e-11, "float32": 1e-5}
LEEWAY = 4.0
# Samples that are examined, anchors among them, and neighbours of each anchor.
LOOKED_AT, ANCHORS, NEIGHBORS = 2_000, 32, 12
# In more coordinates no neighbours are near; the relative thickness of a surface.
SURFACE_ENTRIES, THIN = 6, 0.15
# The distance in spreads at which a log-density has fallen by FALLEN to at least one side, and the
# share of samples at which it has not if it is with respect to an area.
AWAY, FALLEN, SHARE = 8.0, 5.0, 0.5
ON_A_SURFACE = (
    "its samples lie on a surface, across which its log-density is constant: it is a density with respect to area, "
    "which laws of volumes do not cover"
)


@dataclass(frozen=True)
class Draws:
    """Points ``(n, size)`` with their contexts ``(n, *context)``, or None."""

    flat: Array
    context: Array | None

    def rows(self, chosen: slice | Array) -> Draws:
        """The chosen rows."""
        return Draws(self.flat[chosen], None if self.context is None else self.context[chosen])


@dataclass(frozen=True)
class Frame:
    """Coordinates in which the samples are about standard normal: x = middle + y @ axes.

    ``low``, ``high``: the box of the samples it was made from; laws restricted to it do not
    evaluate the density elsewhere, where it may not be intended. ``leaves``: whether samples lie
    outside the support, as those of levels squeezed before a logit; they then do not show where
    the density ends.
    """

    middle: Array
    axes: Array
    log_volume: float
    low: Array
    high: Array
    leaves: bool = False

    def holds(self, flat: Array) -> Array:
        """The points inside the box, ``(n,)``."""
        with np.errstate(invalid="ignore"):
            return np.asarray(((flat >= self.low) & (flat <= self.high)).all(1))

    def inward(self, flat: Array) -> Array:
        """Points ``(n, size)`` in these coordinates."""
        return np.asarray(np.linalg.solve(self.axes.T, (flat - self.middle).T).T)

    def outward(self, y: Array) -> Array:
        """The points with these coordinates, ``(n, size)``."""
        return np.asarray(self.middle + y @ self.axes)


def first_sample_count(flow: Sampler) -> int:
    """The number of samples of a first stage, within the budget."""
    size = max(1, math.prod(flow.density_shape))
    most = min(int(COUNT * measured_share(flow, OPERATIONS)), ENTRIES // size)
    return affordable_row_count(flow, most, FEWEST if stepwise(flow, "sample") else LEAST, "sample")


def pilot(flow: SampledDensity) -> int:
    """The number of samples that place and scale the frame."""
    return min(PILOT, first_sample_count(flow))


def density_samples(flow: SampledDensity, count: int, seed: int, alike: bool = False) -> Draws:
    """Samples ``(count, size)`` with their contexts: one sample per context, which may be
    ``alike``, or several for each of a few contexts if the sampler returns these. Raises
    `Unsupported` for a wrong shape, `Undecidable` if sampling raises or gives too many non-finite
    values.
    """
    shape, contexts = flow.density_shape, None
    if flow.context_shape is not None:
        # A separate stream: otherwise numbers drawn later from this seed would be the same.
        rng = np.random.default_rng(seed_of(seed, "contexts"))
        contexts = rng.standard_normal((count, *flow.context_shape))
        contexts = np.repeat(contexts[:1], count, 0) if alike else contexts
        few = np.shape(flow.sample(3, seed, contexts[:3]))
        if few == (3, 3, *shape):
            each = count // CONTEXTS
            x = np.asarray(flow.sample(each, seed, contexts[:CONTEXTS]), dtype=np.float64)
            if x.shape != (CONTEXTS, each, *shape):
                raise Unsupported(
                    f"sample({each}) of {CONTEXTS} contexts returned shape {x.shape}; expected "
                    f"{(CONTEXTS, each, *shape)}",
                    blocked=False,
                )
            flat = _flattened_samples(x.reshape(-1, *shape), CONTEXTS * each, shape)
            return Draws(flat, np.repeat(contexts[:CONTEXTS], each, 0))
    elif refused := attempt(flow.sample, tried(flow, count), seed, None)[1]:
        raise Undecidable(f"sample raises {refused}: see shape/one-number-per-point[samples]")
    x = np.asarray(flow.sample(count, seed, contexts), dtype=np.float64)
    return Draws(_flattened_samples(x, count, shape), contexts)


def tried(flow: SampledDensity, count: int) -> int:
    """The number of samples that show whether sampling works: all of them for step-by-step
    samplers, whose result is cached.
    """
    return count if stepwise(flow, "sample") else 2


def _flattened_samples(x: Array, count: int, shape: tuple[int, ...]) -> Array:
    if x.shape != (count, *shape):
        raise Unsupported(
            f"sample({count}) returned shape {x.shape}; expected {(count, *shape)}", blocked=False
        )
    if np.isfinite(x.reshape(count, -1)).all(1).mean() < 0.99:
        raise Undecidable("more than one sample in a hundred is not finite")
    return x.reshape(count, -1)


def at_samples(flow: SampledDensity, draws: Draws) -> Array:
    """The log-density of samples, ``(n,)``."""
    x = draws.flat.reshape(-1, *flow.density_shape)
    return np.asarray(flow.log_prob(x, draws.context), dtype=np.float64).reshape(len(x))


def answered(flow: Density, x: Array, context: Array | None) -> tuple[Array, str]:
    """The log-density at points, ``(n,)``, nan at rejected ones, and the error text: argument
    checks reject a whole batch for one non-finite latent.

    Rejected points lie far out, so bisection of the points sorted by size finds them.
    """

    def asked(rows: Array) -> Array:
        values = flow.log_prob(x[rows], None if context is None else context[rows])
        return np.asarray(values, dtype=np.float64).reshape(len(rows))

    everywhere = np.arange(len(x))
    whole, refused = attempt(asked, everywhere)
    if not refused:
        return whole, ""
    log_p = np.full(len(x), np.nan)
    far = np.abs(x).reshape(len(x), -1).max(1, initial=0.0)
    halves = np.array_split(everywhere[np.argsort(far, kind="stable")], 2)
    for _ in range(CALLS):
        if not halves:
            break
        rows = halves.pop(0)
        values, error = attempt(asked, rows)
        if not error:
            log_p[rows] = values
        elif len(rows) > 1:
            halves += np.array_split(rows, 2)
    return log_p, refused[:QUOTED]


def log_prob_at_points(
    flow: Density,
    flat: Array,
    context: Array | None,
    lost: float = LOST,
    within: Frame | None = None,
) -> Array:
    """The log-density at other points, ``(n,)``, -inf outside the support (if samples respect it)
    and outside the box ``within``, where it is not evaluated.

    Raises `Undecidable` if more than the share ``lost`` is rejected or not a number.
    """
    x = flat.reshape(-1, *flow.density_shape)
    inside = np.full(len(x), True) if within is None else within.holds(flat)
    if within is None or not within.leaves:
        inside = inside & flow.density_support.holds(x)
    if not inside.any():
        return np.full(len(x), -np.inf)
    asked = np.where(inside.reshape(-1, *(1,) * (x.ndim - 1)), x, x[inside][:1])
    log_p, refused = answered(flow, asked, context)
    missing = np.isnan(log_p)
    if refused and (missing.all() or (missing & inside).mean() > lost):
        raise Undecidable(
            f"log_prob raises next to its samples ({refused}); its support can be declared (?support=)"
        )
    if (missing & inside).mean() > lost:
        raise Undecidable("the log-density next to its samples is not a number")
    return np.where(inside & ~np.isnan(log_p), log_p, -np.inf)


def placing(flow: SampledDensity, seed: int, most: int = PILOT) -> Draws:
    """Samples that place and scale a frame."""
    return density_samples(flow, min(pilot(flow), most), seed)


def atoms(flow: Flow, seed: int) -> Array:
    """Values that samples of a scalar distribution repeat, as with a mass at zero or at a limit,
    ``(k,)``. Empty for discrete distributions, which have nothing in between, and with contexts.
    """
    if (
        math.prod(flow.density_shape) > 1
        or flow.context_shape is not None
        or not offers(flow, SampledDensity)
    ):
        return np.zeros(0)
    drawn_ones, refused = attempt(density_samples, flow, first_sample_count(flow), seed)
    if refused:
        return np.zeros(0)
    values, counts = np.unique(drawn_ones.flat[:, 0], return_counts=True)
    found = values[counts > 1]
    if not len(found) or len(found) > MOST_ATOMS or len(values) < MIXED * len(found):
        return np.zeros(0)
    # An end of the support may be an atom that is rarely drawn: the log-density jumps there.
    ends = np.array(
        [end for end in flow.density_support.ends if np.ndim(end) == 0 and np.isfinite(end)]
    )
    inwards = ends + BESIDE_END * np.sign(np.median(values) - ends) * np.ptp(values)
    sides = [
        np.asarray(flow.log_prob(x.reshape(-1, *flow.density_shape), None)) for x in (ends, inwards)
    ]
    with np.errstate(invalid="ignore"):
        left = np.abs(sides[0] - sides[1]).reshape(-1) > JUMP
    return np.unique([*found, *ends[left]])


def sample_frame(flow: SampledDensity, found: Draws) -> Frame:
    """The frame of samples. Raises `Undecidable` if samples repeat or do not fill the space."""
    finite = np.isfinite(found.flat).all(1)
    flat = found.flat[finite]
    distinct = min(len(np.unique(column)) for column in flat.T)
    if distinct < REPEATED * len(flat):
        raise Undecidable("its samples repeat values, as in discrete distributions")
    middle, spread = center_and_spread(flat)
    radius = np.linalg.norm(flat, axis=1)
    if not (spread > 0).all() or (flat.shape[1] > 1 and radius.std() < 1e-6 * radius.mean()):
        raise Undecidable("its samples do not spread in every direction")
    refuse_surfaces(flow, flat, None if found.context is None else found.context[finite])
    size = len(middle)
    leaves = not flow.density_support.holds(flat.reshape(-1, *flow.density_shape)).all()
    box = flat.min(0), flat.max(0), leaves
    if size > CORRELATED:
        return Frame(middle, np.diag(spread), float(np.log(spread).sum()), *box)
    w = np.clip((flat - middle) / spread, -CLIP, CLIP)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(w.T)))
    if values.min() < FLAT * values.max():
        raise Undecidable("its samples do not spread in every direction")
    axes = (np.sqrt(values)[:, None] * vectors.T) * spread
    volume = float(np.linalg.slogdet(axes)[1])
    return Frame(middle, axes, volume, *box)


def refuse_surfaces(flow: Density, flat: Array, context: Array | None) -> None:
    """Raise `Undecidable` if samples lie on a surface and the log-density is constant across it.
    If it decays across, it is meant with respect to volume, and the samples are wrong.
    """
    if not 2 <= flat.shape[1] <= SURFACE_ENTRIES or len(flat) < 10 * NEIGHBORS:
        return
    flat = flat[:LOOKED_AT]
    rows, normals, flatness = neighborhoods(flat)
    if not len(rows) or np.median(flatness) >= THIN:
        return
    if stays_up(flow, flat[rows], normals, None if context is None else context[rows]):
        raise Undecidable(ON_A_SURFACE)


def neighborhoods(flat: Array) -> tuple[Array, Array, Array]:
    """For a few samples: their rows ``(k,)``, the direction with the least spread of neighbours,
    scaled to AWAY spreads, ``(k, size)``, and the relative thickness in that direction, ``(k,)``.
    Empty arrays if an entry is constant.
    """
    spread = flat.std(0)
    if not (spread > 0).all():
        return np.zeros(0, dtype=int), np.zeros((0, flat.shape[1])), np.zeros(0)
    scaled = flat / spread
    rows = np.arange(0, len(flat), max(1, len(flat) // ANCHORS))[:ANCHORS]
    normals, flatness = [], []
    for anchor in scaled[rows]:
        away = ((scaled - anchor) ** 2).sum(1)
        near = scaled[np.argpartition(away, NEIGHBORS)[:NEIGHBORS]]
        _, values, ways = np.linalg.svd(near - near.mean(0))
        normals.append(AWAY * spread * ways[-1])
        flatness.append(values[-1] / max(values[0], 1e-300))
    return rows, np.array(normals), np.array(flatness)


def stays_up(flow: Density, x: Array, ways: Array, context: Array | None) -> bool:
    """Whether the log-density, at many points, stays constant along the direction to at least one
    side.
    """
    values = []
    for side in (0.0, 1.0, -1.0):
        points = (x + side * ways).reshape(-1, *flow.density_shape)
        log_p, _ = attempt(flow.log_prob, points, context)
        if log_p is None:
            return False
        values.append(
            np.nan_to_num(np.asarray(log_p, dtype=np.float64).reshape(len(x)), nan=-np.inf)
        )
    here, *sides = values
    with np.errstate(invalid="ignore"):
        up = np.maximum(*sides) >= here - FALLEN
    return bool(up.mean() >= SHARE)


def periodic(flow: Density, draws: Draws) -> bool:
    """Whether the density repeats along a coordinate, as for angles."""
    flat = draws.flat[:8]
    context = None if draws.context is None else draws.context[:8]
    here = log_prob_at_points(flow, flat, context, lost=1.0)
    for axis in np.eye(flat.shape[1]):
        for period in PERIODS:
            there = log_prob_at_points(flow, flat + period * axis, context, lost=1.0)
            with np.errstate(invalid="ignore"):
                if (np.abs(there - here) < 1e-5 * (1 + np.abs(here))).all():
                    return True
    return False


def repeats(flow: Density, batch: Batch) -> bool:
    """The same without samples: at a drawn point, along coordinates in which the density is not
    constant; with many coordinates some are tried.
    """
    flat = np.asarray(batch.x[:1], dtype=np.float64).reshape(1, -1)
    size = flat.shape[1]
    shifts = np.array([0.0, NO_PERIOD, *(turn * period for turn in TURNS for period in PERIODS)])
    tried = np.arange(size) if size <= COORDINATES else np.linspace(0, size - 1, SOME).astype(int)
    moved = (flat + shifts[:, None, None] * np.eye(size)[tried]).reshape(-1, size)
    context = None if batch.context is None else np.repeat(batch.context[:1], len(moved), 0)
    there = log_prob_at_points(flow, moved, context, lost=1.0).reshape(len(shifts), len(tried))
    with np.errstate(invalid="ignore"):
        same = np.abs(there - there[:1]) < 1e-5 * (1 + np.abs(there[:1]))
    turned = same[2:].reshape(len(TURNS), len(PERIODS), -1).all(0)
    return bool((turned.any(0) & ~same[1]).any())


def unsettled(flow: Density, flat: Array, context: Array | None, log_p: Array) -> Array:
    """The possible change of the log-density of each point by rounding, ``(n,)``; 0 if it is
    negligible or was not evaluated, inf if the log-density is not a number.
    """
    changes, asked = np.zeros(len(flat)), ~np.isneginf(log_p)
    if not asked.any():
        return changes
    rng = np.random.default_rng(len(flat))
    size = np.abs(flat).max(1, keepdims=True)
    moved = (flat + JITTER[flow.dtype] * size * rng.uniform(-1, 1, flat.shape))[asked]
    beside = None if context is None else context[asked]
    there, _ = answered(flow, moved.reshape(-1, *flow.density_shape), beside)
    with np.errstate(invalid="ignore"):
        found = np.abs(there - log_p[asked])
    changes[asked] = np.where(found < UNSETTLED, 0.0, np.nan_to_num(LEEWAY * found, nan=np.inf))
    return changes


def width(log_ratios: Array, changes: Array) -> float:
    """The possible error of the mean of min(1, r) if each log r is off by its ``changes``: at most
    the whole term, and zero if r is negligible in any case.
    """
    moving = changes > 0
    with np.errstate(invalid="ignore"):
        high = log_ratios[moving] + changes[moving]
        low = log_ratios[moving] - changes[moving]
    most = np.exp(np.minimum(np.nan_to_num(high, nan=0.0, posinf=0.0, neginf=-np.inf), 0.0))
    least = np.exp(np.minimum(np.nan_to_num(low, nan=-np.inf, posinf=0.0, neginf=-np.inf), 0.0))
    return float((most - least).sum()) / max(1, len(changes))
