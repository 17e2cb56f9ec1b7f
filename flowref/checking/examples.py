"""What to draw: examples (which weights, how many points, how far out) and the points of an
example.

Hypothesis chooses examples from small finite sets; points follow from an example by a fixed
generator. Edge points belong in every batch: zeros of both signs, ones, the ends of the domain and
the knots, and their neighbors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from flowref.model import Array, Batch, Law, Subject, Support, draw, seed_of

REACHES = ("near", "wide", "far")
# Typical magnitudes of a point; "near" stays where most flows are exercised, "far" goes where they
# overflow.
MAGNITUDES = {
    "near": (1e-3, 0.1, 0.3, 1.0, 1.0, 1.0, 2.0, 3.0),
    "wide": (1e-6, 1e-3, 0.1, 0.5, 1.0, 1.0, 2.0, 3.0, 5.0, 10.0, 12.0, 30.0, 100.0, 1e3),
    "far": (1e-6, 1e-3, 1.0, 10.0, 30.0, 1e2, 3e2, 1e3, 1e4, 1e5, 1e6),
}
BATCHES = (1, 2, 3, 7, 16, 48)
SEEDS = tuple(range(1000))
# A batch holds at most this many coordinates in all.
ENTRIES = 1024
# Rows times operations of a round trip that a batch may hold, and the rows that it holds in any
# case.
ROW_OPERATIONS, LEAST_ROWS = 200_000, 12


@dataclass(frozen=True, order=True)
class Example:
    """One batch to measure: parameter perturbation, number of points, how far out they lie, a seed,
    and which build.

    Objects draw their parameters when they are built; ``build`` other than 0 is one of another
    random state, since some are wrong for some initial values only (a matrix whose determinant is
    negative).
    """

    scale: float
    batch: int
    reach: str
    seed: int
    build: int = 0


# What every law sees first, in this order; Hypothesis draws from there on.
SCHEDULE = (
    Example(0.0, 48, "wide", 1),
    Example(0.3, 48, "wide", 3),
    Example(0.0, 1, "near", 2),
    Example(1.0, 48, "wide", 4),
    Example(0.1, 3, "near", 5),
    Example(0.0, 48, "far", 6, build=1),
    Example(3.0, 48, "wide", 7),
    Example(1.0, 1, "wide", 8),
    Example(0.3, 16, "far", 9),
    Example(0.0, 7, "near", 10, build=2),
)


class PlainProvider(providers.HypothesisProvider):
    """Hypothesis's generator without the constants that it collects from imported modules.

    Those depend on what a process imported so far, so that the same seed would draw differently in
    two processes.
    """

    def _maybe_draw_constant(self, *args: Any, **kwargs: Any) -> None:
        return None


providers.AVAILABLE_PROVIDERS.setdefault("flowref", f"{__name__}.PlainProvider")


def explore(
    law: Law,
    subject: Subject,
    root_seed: int,
    target: str,
    effort: int,
    visit: Callable[[Example], None],
) -> None:
    """Call ``visit`` with ``effort`` examples: the schedule, then what Hypothesis draws. ``visit``
    may raise to stop.
    """
    scales = law.scales if subject.trainable else (0.0,)
    planned = [
        replace(plan, batch=min(plan.batch, law.size)) for plan in SCHEDULE if plan.scale in scales
    ]
    planned = list(dict.fromkeys(planned))[:effort]
    for plan in planned:
        visit(plan)
    remaining = effort - len(planned)
    if remaining <= 0:
        return
    sizes = tuple(size for size in BATCHES if size <= law.size)
    drawn = st.builds(
        Example,
        st.sampled_from(scales),
        st.sampled_from(sizes),
        st.sampled_from(REACHES),
        st.sampled_from(SEEDS),
    )

    # Hypothesis begins with the simplest example of a strategy; that one is made explicit so that
    # none is wasted.
    def examine(plan: Example) -> None:
        visit(plan)

    body = given(drawn)(examine)
    configured = settings(
        max_examples=remaining,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        backend="flowref",
    )(body)
    seed(seed_of(root_seed, law.key, law.version, target))(configured)()


def points(subject: Subject, plan: Example, given_as: str = "points") -> Batch:
    """The batch of an example: points of the set that the law is given, contexts, and the seed.

    Large events get fewer points, so that a batch of Jacobians stays small, and so do solvers of
    thousands of operations.
    """
    support, event = subject.drawn(given_as)
    numel = math.prod(event)
    affordable = max(LEAST_ROWS, ROW_OPERATIONS // max(1, subject.operations))
    count = min(plan.batch, affordable, max(1, ENTRIES // max(1, numel)))
    rng = np.random.default_rng(seed_of(plan.seed, count, plan.reach, *event) % 2**63)
    shape = (count, *event)
    x = (
        beyond(support, shape, rng)
        if given_as == "beyond"
        else inside(support, edges(subject, support), plan.reach, shape, rng)
    )
    context = None
    if subject.context_shape is not None:
        context = rng.standard_normal((count, *subject.context_shape))
    return Batch(x, context, plan.seed)


def inside(
    support: Support,
    edge_points: list[float],
    reach: str,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> Array:
    """Points of a set: ordinary ones at many magnitudes, and edge points in the last rows."""
    x = draw(support, shape, rng)
    if support.kind in ("ordered", "simplex") or not x.size:
        return x
    rows = x.reshape(len(x), -1)
    if not support.bounded:
        magnitudes = rng.choice(MAGNITUDES[reach], size=len(rows))
        alone = rng.random(len(rows)) < 0.4  # only one coordinate is large
        column = rng.integers(0, rows.shape[1], size=len(rows))
        factor = np.where(alone[:, None], 1.0, magnitudes[:, None]) * np.ones_like(rows)
        factor[np.arange(len(rows)), column] = magnitudes
        rows *= factor
    elif reach != "near":
        _toward_ends(rows, support.low, support.high, rng)
    for place, edge in enumerate(edge_points[: len(rows) // 2]):
        row = rows[len(rows) - 1 - place]
        hit = rng.random(row.shape) < 0.5
        hit[rng.integers(0, row.size)] = True
        row[hit] = edge
    return rows.reshape(shape)


def _toward_ends(rows: Array, low: float, high: float, rng: np.random.Generator) -> None:
    """Move some coordinates of a bounded domain close to an end, or far out where it has only one."""
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
    """Coordinates at which formulas change: knots and their neighbors, zeros, ones; those inside
    the set.
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


def beyond(support: Support, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Points with at least one coordinate outside the set."""
    low, high = support.low, support.high
    x = draw(support, shape, rng)
    rows = x.reshape(len(x), -1)
    for row in rows:
        choices = [low - step for step in (1e-3, 1.0, 10.0) if math.isfinite(low)]
        choices += [high + step for step in (1e-3, 1.0, 10.0) if math.isfinite(high)]
        if choices:
            row[rng.integers(0, row.size)] = rng.choice(choices)
    return rows.reshape(shape)


__all__ = ["SCHEDULE", "Example", "edges", "explore", "points"]
