"""Domains found from calls: of maps that wrap around, clamp their input, are even, or return no finite
numbers outside an interval.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.adapters.common.torch_supports import interval
from flowref.loading.draft import Draft, Finding
from flowref.model import REAL, Array, Support, draw_points

# Rows of one call that searches for a bound, and rounds of refinement.
ROWS, ROUNDS = 33, 10
# The same for non-finite values, where calls may be expensive; and how many ordinary points are
# tried.
FEWER, STEPS, ORDINARY = 9, 8, 8
# Constant events tried for a finite image; those in the middle must have one.
TRIED = (
    -1e3, -300.0, -9.0, -3.0, -1.5, -0.5, -0.05, 0.05, 0.3, 0.5, 0.7, 0.95, 1.05, 1.5, 3.0, 9.0, 200.0, 300.0, 1e3,
)  # fmt: skip
MIDDLE = (8, 9, 10)
# The most coordinates that are tried one by one.
COORDINATES = 16
# Distance within which a found end is rounded to a conventional one, and those: of pixels and of
# (-1, 1).
NEAR, CHOSEN = 1e-3, (-1.0, 0.0, 1.0, 255.0, 256.0)
# Ratio of slopes, at an open bound and in the middle.
STEEP = 2.0
# Relative tolerance of even maps, and of their inverse.
SAME, MET = 1e-12, 1e-6
# Grid points for locating a jump, rounds of refinement, distance of its sides from the interval's
# ends, and its size in ordinary increments.
AROUND, TIMES, EDGE, JUMP = 257, 6, 1e-6, 16.0
# Share of ordinary points with a finite image from which on the domain is not restricted.
FEW = 0.5


def unknown(draft: Draft) -> bool:
    """Whether the domain is neither stated nor evident, and calls may show it."""
    facts, dialect = draft.facts, draft.dialect
    asked = dialect.push is None and (dialect.forward or dialect.log_prob) is not None
    stated = facts.declared or facts.domain.kind != "real" or facts.normalizer is not None
    return asked and not stated and bool(facts.event_shape)


def clamps(draft: Draft) -> Finding | None:
    """The interval (0, 1) or (0, inf), or nearly so, if a map is constant outside of it and steep at its
    ends, as a logarithm of clamped input is; else None.
    """
    images = partial(_images, draft)
    with contextlib.suppress(Exception):  # exceptions are reported by laws
        # Outside below and above, near both ends, and in the middle.
        seen = images(np.array([-3.0, -1.0, -0.5, 1.5, 2.0, 9.0, 0.05, 0.1, 0.9, 0.95, 0.5, 0.55]))
        if not np.isfinite(seen).all():
            return None
        middle = np.abs(seen[11] - seen[10])
        low = (np.ptp(seen[:3], axis=0) == 0).all() and _steep(seen[6], seen[7], middle)
        high = (np.ptp(seen[3:6], axis=0) == 0).all() and _steep(seen[8], seen[9], middle)
        if low:
            first = _domain_end(images, -0.5, 0.05, seen[2])
            return _interval_finding(
                first, _domain_end(images, 1.5, 0.95, seen[3]) if high else math.inf
            )
    return None


def _interval_finding(low: float, high: float) -> Finding:
    return Finding((f"({low:.4g}, {high:.4g})",), facts={"domain": interval(low, high)})


def circle(draft: Draft) -> Finding | None:
    """The interval into which a map wraps its values (angles or phases): it jumps from one end to the other
    and takes no value outside; else None.
    """
    images = partial(_images, draft)
    with contextlib.suppress(Exception):  # exceptions are reported by laws
        points = np.linspace(-math.pi, math.pi, AROUND)
        seen = images(points)
        rises = np.abs(np.diff(seen, axis=0))
        where, entry = np.unravel_index(np.argmax(rises), rises.shape)
        if rises[where, entry] < rises.mean() * JUMP / 2:  # as steep as elsewhere
            return None
        low, high = _jump(images, points, int(where), int(entry))
        size, own = high - low, seen[:, entry]
        within = low - EDGE <= own.min() and own.max() <= high + EDGE
        ends = min(abs(low), abs(low + high)) <= EDGE and size > max(rises.mean() * JUMP, EDGE)
        return _interval_finding(low, high) if within and ends else None
    return None


def _jump(
    images: Callable[[Array], Array], points: Array, where: int, entry: int
) -> tuple[float, float]:
    """The smaller and the larger value of an entry on both sides of the jump after ``points[where]``,
    ``points (n,)``, by refinement.
    """
    for _ in range(1, TIMES):
        points = np.linspace(points[where], points[where + 1], AROUND)
        seen = images(points)[:, entry]
        where = int(np.argmax(np.abs(np.diff(seen))))
    ends = seen[where : where + 2]
    return float(ends.min()), float(ends.max())


def mirrored(draft: Draft) -> Finding | None:
    """The positive numbers, if forward is even in every entry and the inverse returns the positive point: a
    formula of even powers meant for one side. Else None.
    """
    facts, dialect = draft.facts, draft.dialect
    if dialect.forward is None or dialect.inverse is None or facts.context_shape is not None:
        return None
    rng = np.random.default_rng(0)
    x = rng.uniform(0.05, 0.95, (ROWS, *facts.event_shape))
    signs = rng.choice([-1.0, 1.0], x.shape)
    with contextlib.suppress(Exception):  # exceptions are reported by laws
        one, other = (_images(draft, np.ascontiguousarray(points)) for points in (x, signs * x))
        if not np.allclose(one, other, SAME, SAME) or not np.ptp(one, axis=0).all():
            return None
        image = draft.array(draft.ask(dialect.forward, signs * x)[0])
        back = draft.array(draft.ask(dialect.inverse, image)[0])
        if np.allclose(back, x, MET, MET):
            return Finding(("positive",), facts={"domain": Support.parse("positive")})
    return None


def finite_interval(draft: Draft) -> Support | None:
    """The interval outside of which a map is not finite, or a density is NaN, if few ordinary points have a
    finite image; None if most have one, or the set is no interval.
    """

    def finite(points: Array) -> Array:
        return np.asarray(np.isfinite(_images(draft, points)).all(1))

    with contextlib.suppress(Exception):  # exceptions are reported by laws
        facts = draft.facts
        x = draw_points(facts.domain, (ORDINARY, *facts.event_shape), np.random.default_rng(0))
        if finite(x).mean() > FEW:
            return None
        points = np.array(TRIED)
        inside = np.flatnonzero(finite(points))
        first, last = int(inside[0]), int(inside[-1])
        if len(inside) != last - first + 1 or not set(MIDDLE) <= set(inside.tolist()):
            return None
        low = -math.inf if not first else _edge(finite, points[first - 1], points[first])
        high = (
            math.inf if last == len(points) - 1 else _edge(finite, points[last + 1], points[last])
        )
        if not math.isfinite(low) and not math.isfinite(high):
            return None
        return _of_coordinates(draft, interval(low, high), points, finite)
    return None


def _of_coordinates(
    draft: Draft, found: Support, tried: Array, finite: Callable[[Array], Array]
) -> Support:
    """The product of an interval and of the real line, for coordinates that may leave the interval alone; the
    interval if there are none, or many coordinates.
    """
    shape = draft.facts.event_shape
    count = math.prod(shape)
    middle = tried[MIDDLE[0]]
    outside = tried[~finite(tried)]
    if not 1 < count <= COORDINATES:
        return found
    free = []
    for coordinate in range(count):
        points = np.full((len(outside), count), middle)
        points[:, coordinate] = outside
        free.append(bool(finite(points.reshape(-1, *shape)).all()))
    product = Support.product([REAL if one else found for one in free])
    x = draw_points(product, (ORDINARY, *shape), np.random.default_rng(0))
    return product if any(free) and bool(finite(x).all()) else found


def _edge(finite: Callable[[Array], Array], outside: float, inside: float) -> float:
    """The bound between ``outside`` and ``inside`` at which a map becomes finite, rounded to a conventional
    number if one is near.
    """
    near = [one for one in CHOSEN if min(outside, inside) < one < max(outside, inside)]
    if near:
        sides = finite(np.array([one + side for one in near for side in (-NEAR, NEAR)]))
        for one, (below, above) in zip(near, sides.reshape(-1, 2), strict=True):
            if below != above:
                return one
    for _ in range(STEPS):
        points = np.linspace(outside, inside, FEWER)
        last = int(np.flatnonzero(~finite(points))[-1])
        outside, inside = float(points[last]), float(points[min(last + 1, FEWER - 1)])
    return inside


def _images(draft: Draft, points: Array) -> Array:
    """The images of points as ``(n, entries)``; numbers ``(n,)`` stand for constant events. Log-densities,
    which may be -inf, if there is no map.
    """
    facts, dialect = draft.facts, draft.dialect
    event, rows = facts.event_shape, points
    if points.shape[1:] != event:
        rows = np.broadcast_to(points.reshape(-1, *[1] * len(event)), (len(points), *event))
    shape = facts.context_shape
    context = None if shape is None else np.zeros((len(points), *shape))
    out = draft.ask(dialect.forward or dialect.log_prob, np.ascontiguousarray(rows), context)
    value = draft.array(out if dialect.forward is None else out[0])
    if dialect.forward is None:
        value = np.where(np.isneginf(value), 0.0, value)
    return np.asarray(value, dtype=np.float64).reshape(len(points), -1)


def _steep(one: Array, other: Array, middle: Array) -> bool:
    return bool((np.abs(one - other) > STEEP * middle).all() and (middle > 0).all())


def _domain_end(
    images: Callable[[Array], Array], outside: float, inside: float, image: Array
) -> float:
    """The number nearest to ``inside`` that has the same image as ``outside``."""
    for _ in range(ROUNDS):
        points = np.linspace(outside, inside, ROWS)
        same = (images(points) == image).all(1)
        last = int(np.flatnonzero(same)[-1])
        outside, inside = float(points[last]), float(points[min(last + 1, ROWS - 1)])
    return inside
