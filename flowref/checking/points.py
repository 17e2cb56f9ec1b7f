"""The points of an example, from a generator seeded by it.

Every batch contains edge points: zeros of both signs, ones, the ends of the domain, the knots, and
their neighbors.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.checking.examples import Example
from flowref.model import Array, Batch, Subject, Support, draw_points, seed_of

# Typical magnitudes of a point; "near" stays where most flows are exercised, "far" goes where they
# overflow.
MAGNITUDES = {
    "near": (1e-3, 0.1, 0.3, 1.0, 1.0, 1.0, 2.0, 3.0),
    "wide": (1e-6, 1e-3, 0.1, 0.5, 1.0, 1.0, 2.0, 3.0, 5.0, 10.0, 12.0, 30.0, 100.0, 1e3),
    "far": (1e-6, 1e-3, 1.0, 10.0, 30.0, 1e2, 3e2, 1e3, 1e4, 1e5, 1e6),
}
# With this few rows of events this large, every entry gets a magnitude of its own.
FEW, VAST = 3, 512
# A batch holds at most this many coordinates in all.
ENTRIES = 1024
# Rows times operations of a round trip that a batch may hold, and the rows that it holds in any
# case.
ROW_OPERATIONS, LEAST_ROWS = 200_000, 12


def example_batch(
    subject: Subject,
    example: Example,
    region: str = "domain",
    most: int | None = None,
    rows: int = 0,
) -> Batch:
    """Return the batch of an example: points ``(n, *event)`` of a law's region, contexts and the
    seed. Large events and expensive solvers get fewer points. ``most``: the planned maximum;
    ``rows``: exactly this many.
    """
    support, event = subject.drawn(region)
    numel = math.prod(event)
    affordable = max(LEAST_ROWS, ROW_OPERATIONS // max(1, subject.operations))
    fitting = max(1, ENTRIES // max(1, numel)) if most is None else most
    count = rows or min(example.batch, affordable, fitting)
    rng = np.random.default_rng(seed_of(example.seed, count, example.reach, *event) % 2**63)
    shape = (count, *event)
    x = (
        points_outside_support(support, shape, rng)
        if region == "beyond"
        else points_in_support(support, edges(subject, support), example.reach, shape, rng)
    )
    context = None
    if subject.context_shape is not None:
        context = rng.standard_normal((count, *subject.context_shape))
    return Batch(x, context, example.seed)


def points_in_support(
    support: Support,
    edge_points: list[float],
    reach: str,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> Array:
    """Return points of a set, ``shape``: ordinary ones at many magnitudes, and edge points in the
    last rows.
    """
    if support.coordinates:
        columns = [
            points_in_support(
                one, [e for e in edge_points if one.low < e < one.high], reach, (shape[0], 1), rng
            )
            for one in support.coordinates
        ]
        return np.concatenate(columns, axis=1).reshape(shape)
    x = draw_points(support, shape, rng)
    if support.joint or not x.size:
        return x
    rows = x.reshape(len(x), -1)
    if not support.has_end:
        magnitudes = rng.choice(MAGNITUDES[reach], size=len(rows))
        alone = rng.random(len(rows)) < 0.4  # only one coordinate is large
        column = rng.integers(0, rows.shape[1], size=len(rows))
        factor = np.where(alone[:, None], 1.0, magnitudes[:, None]) * np.ones_like(rows)
        factor[np.arange(len(rows)), column] = magnitudes
        if reach == "near" and len(rows) <= FEW and rows.shape[1] >= VAST:
            factor = rng.choice(MAGNITUDES[reach], size=rows.shape)
        rows *= factor
    elif reach != "near":
        _toward_ends(rows, support.low, support.high, rng)
    origin = edge_points.index(0.0) if 0.0 in edge_points and len(rows) > FEW else -1
    for index, edge in enumerate(edge_points[: len(rows) // 2]):
        row = rows[len(rows) - 1 - index]
        hit = rng.random(row.shape) < 0.5
        hit[rng.integers(0, row.size)] = True
        if index == origin:  # random rows are never all zero
            hit[:] = True
        row[hit] = edge
    return rows.reshape(shape)


def _toward_ends(rows: Array, low: float, high: float, rng: np.random.Generator) -> None:
    """Move some coordinates, in place, close to an end, or far out on a side without end."""
    width = high - low if math.isfinite(high - low) else 1.0
    gaps = rng.choice((1e-12, 1e-9, 1e-6, 1e-3, 1e-2), size=rows.shape) * width
    near = rng.random(rows.shape)
    if math.isfinite(low):
        rows[near < 0.1] = (low + gaps)[near < 0.1]
    if math.isfinite(high):
        rows[near > 0.9] = (high - gaps)[near > 0.9]
    else:
        rows[near > 0.9] = low + rng.choice((3.0, 10.0, 30.0, 100.0), size=rows.shape)[near > 0.9]


def edges(subject: Subject, support: Support) -> list[float]:
    """Return the coordinates inside the set at which formulas change: knots and their neighbors,
    zeros, ones.
    """
    values: list[float] = []
    for knot in subject.facts.knots:
        values += [
            knot,
            -knot,
            np.nextafter(knot, np.inf),
            np.nextafter(knot, -np.inf),
            0.999 * knot,
            -0.999 * knot,
            0.98 * knot,
            -0.98 * knot,
            1.5 * knot,
            -2.0 * knot,
        ]
    values += [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 20.5, -20.5]
    return [float(value) for value in values if support.low < value < support.high]


def points_outside_support(
    support: Support, shape: tuple[int, ...], rng: np.random.Generator
) -> Array:
    """Return points with at least one coordinate outside the set, ``shape``."""
    x = draw_points(support, shape, rng)
    rows = x.reshape(len(x), -1)
    if support.coordinates:
        ended = [index for index, one in enumerate(support.coordinates) if one.has_end]
        for row in rows:
            column = int(rng.choice(ended))
            row[column] = points_outside_support(support.coordinates[column], (1, 1), rng)[0, 0]
        return rows.reshape(shape)
    low, high = support.low, support.high
    for row in rows:
        choices = [low - step for step in (1e-3, 1.0, 10.0) if math.isfinite(low)]
        choices += [high + step for step in (1e-3, 1.0, 10.0) if math.isfinite(high)]
        if choices:
            row[rng.integers(0, row.size)] = rng.choice(choices)
    return rows.reshape(shape)
