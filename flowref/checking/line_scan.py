"""The line scan: about a thousand points in one batch, along coordinate axes, diagonals and random
lines, at all numbers where a formula may change.

Drawn points miss a bug at a single knot, at zero, at whole numbers, in a tail or at a bound;
`Subject.numbers` returns the constants of the object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.checking.tolerance import SCREEN
from flowref.model import ROUNDING, Array, Batch, Subject, Support, draw_points, seed_of

# Largest event that is scanned, number of points, the most rows times operations of a round trip, and
# the fewest points worth a scan.
ENTRIES, ROWS, ROW_OPERATIONS, FEWEST = 16, 1000, 4_000_000, 100
# How many of the object's constants are used, and the farthest coordinate of an unbounded set.
NUMBERS, FARTHEST = 40, 1e6
# Numbers of equal bins that a bounded interval is divided into, for knots.
BINS = (3, 5, 7, 8, 10, 16)
# Non-finite residuals are judged up to this coordinate: many maps overflow at the corner of a box of 16.
FINITE = 4.0
# Judged points: this many with the largest residuals, and as many spread over all magnitudes.
JUDGED = 24


def scan(subject: Subject, region: str, seed: int) -> Batch:
    """Return the points of a scan of a law's region, ``(n, *event)``, with one context; no rows if
    the event is large or calls are expensive.
    """
    support, event = subject.drawn(region)
    size = math.prod(event)
    count = min(ROWS, ROW_OPERATIONS // max(1, subject.operations))
    fits = 0 < size <= ENTRIES and count >= FEWEST and not support.joint
    if not fits or region == "beyond":
        return Batch(np.zeros((0, *event)), None, seed)
    rng = np.random.default_rng(seed_of(seed, "lines", *event) % 2**63)
    values = marks(support, (*subject.facts.knots, *subject.numbers()))
    rows = along_axes(support, values, size, rng)
    if len(rows) > count:  # the object's own numbers come first
        rows = rows[
            np.sort(np.concatenate([np.arange(count // 2), _evenly_spaced_rows(rows, count)]))
        ]
    rest = ROWS - len(rows) if count == ROWS else 0
    x = np.concatenate([rows, along_lines(support, max(0, rest), size, rng)])
    x = x.reshape(-1, *event)
    x = x[support.holds(x)]
    context = None
    if subject.context_shape is not None:
        context = np.repeat(rng.standard_normal((1, *subject.context_shape)), len(x), axis=0)
    return Batch(x, context, seed)


def _evenly_spaced_rows(rows: Array, count: int) -> Array:
    """Indices that thin the second half of a scan that is too long."""
    return np.linspace(count // 2, len(rows) - 1, count - count // 2).astype(int)


def marks(support: Support, numbers: Iterable[float]) -> list[float]:
    """Return the distinct coordinates of a scan inside a set: the object's constants and their
    neighbors, then whole and half numbers, values around zero, and magnitudes up to the ends.
    """
    low, high = support.low, support.high
    own = list(dict.fromkeys(abs(float(number)) for number in numbers if math.isfinite(number)))
    values = [mark for number in own[:NUMBERS] for mark in _around(number)]
    values += [0.0, -0.0, *(sign * half / 2 for half in range(1, 25) for sign in (1.0, -1.0))]
    if math.isfinite(low) and math.isfinite(high):
        width = high - low
        values += [low + width * k / bins for bins in BINS for k in range(1, bins)]
        values += [low + width * share for share in np.linspace(0.01, 0.99, 80)]
        values += [low + width * 10.0**-k for k in range(1, 16)]
        values += [high - width * 10.0**-k for k in range(1, 16)]
    else:
        start = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
        small = [10.0**-k for k in (100, 30, 20, *range(16, 0, -1), 0.5)]
        large = list(np.geomspace(12.7, FARTHEST, 36))
        values += [start + sign * step for step in (*small, *large) for sign in (1.0, -1.0)]
    kept = {(float(value), math.copysign(1.0, value)): None for value in values}
    return [value for value, _ in kept if low < value < high]


def _around(number: float) -> Iterator[float]:
    """A number of either sign, its floating-point neighbors, and points 1e-6 away."""
    for value in (number, -number):
        yield value
        yield from (float(np.nextafter(value, end)) for end in (np.inf, -np.inf))
        yield from (value + 1e-6 * (1 + number), value - 1e-6 * (1 + number))


def along_axes(support: Support, values: list[float], size: int, rng: np.random.Generator) -> Array:
    """Return each value in one coordinate of an ordinary point, in another coordinate of one fixed
    point, and in all coordinates: ``(rows, size)``.
    """
    count = len(values)
    every, column = np.arange(count), np.arange(count) % size
    mark = np.asarray(values)
    one = draw_points(support, (count, size), rng)
    one[every, column] = mark
    if size == 1:
        return one
    other = np.repeat(draw_points(support, (1, size), rng), count, axis=0)
    other[every, (column + 1) % size] = mark
    diagonal = np.repeat(mark[:, None], size, axis=1)
    return np.stack([one, other, diagonal], axis=1).reshape(-1, size)


def along_lines(support: Support, count: int, size: int, rng: np.random.Generator) -> Array:
    """Return points on four random lines through the set, dense at first and then farther apart,
    ``(count, size)``.
    """
    start, end = (draw_points(support, (4, size), rng) for _ in range(2))
    line = np.arange(count) % 4
    if support.has_end:
        share = np.linspace(0.0, 1.0, count)[:, None]
        return start[line] + share * (end - start)[line]
    step = np.geomspace(1e-6, FARTHEST, max(1, count)) * rng.choice((-1.0, 1.0), max(1, count))
    return np.asarray(start[line] + step[:count, None] * (end - start)[line])


def conspicuous(measurement: Measurement) -> Array:
    """Return the rows of a scan that are judged: residuals beyond the screen, at most ``2 *
    JUDGED``.
    """
    size, unit = measurement.size, measurement.precision.unit
    allowed = measurement.bound
    if measurement.law.tolerance == ROUNDING:
        allowed = allowed + SCREEN * unit * measurement.scale
    rows: Array = np.flatnonzero(~(size <= allowed))
    if not len(rows):
        return rows
    rows = rows[~measurement.residual.silent[rows]]
    reach = np.abs(measurement.batch.x[rows]).reshape(len(rows), -1).max(1)
    rows = rows[np.isfinite(size[rows]) | (reach <= FINITE)]
    if len(rows) <= 2 * JUDGED:
        return rows
    with np.errstate(all="ignore"):
        excess = np.nan_to_num(size[rows] / allowed[rows], nan=np.inf)
    most = rows[np.argsort(-excess, kind="stable")[:JUDGED]]
    flat = np.abs(measurement.batch.x[rows]).reshape(len(rows), -1).max(1)
    spread = rows[np.argsort(flat, kind="stable")]
    spread = spread[np.linspace(0, len(spread) - 1, JUDGED).astype(int)]
    return np.union1d(most, spread)
