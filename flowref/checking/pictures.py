"""The figure of a violation, measured once at its counterexample when it is recorded.

A law may have its own (`Law.picture`). Otherwise a rounding law is measured along a ray through the
counterexample, from very small to very large inputs, and the two compared numbers, if any, at
ordinary points.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flowref.checking.examples import Example
from flowref.checking.judgement import Judgement
from flowref.checking.measurement import Measurement, measure
from flowref.checking.points import example_batch
from flowref.checking.tolerance import judge
from flowref.model import ROUNDING, Array, Batch, Figure, seed_of
from flowref.model.budget import BudgetExceeded
from flowref.model.figure import SCALE, rounded_series

# Sizes of the input along the ray; the counterexample's own is added.
SIZES = 10.0 ** (np.arange(-12, 13) / 2)
# The most operations of a call, and entries of a batch, that are measured for a figure.
OPERATIONS, ENTRIES = 5_000, 1024
# Points at which two numbers of a law are compared; significant digits stored in a figure.
ORDINARY, DIGITS = Example(0.0, 40, "near", 50), 4


def picture(judgement: Judgement) -> Figure | None:
    """Return the figure of a violation; None if there is none or it cannot be measured."""
    measurement = judgement.measurement
    subject, batch, law = measurement.subject, measurement.batch, measurement.law
    if subject.cost.heavy or subject.operations > OPERATIONS or batch.x.size > ENTRIES:
        return None
    point = batch.rows(slice(judgement.worst(), judgement.worst() + 1))
    with contextlib.suppress(BudgetExceeded, Exception), np.errstate(all="ignore"):
        if law.picture is not None:
            return law.picture(subject, point)
        if law.tolerance == ROUNDING and law.size > 1:
            series, note = along_ray(measurement, point), ""
            with contextlib.suppress(Exception):
                note, compared = residual_operands(measurement)
                series |= compared
            return Figure(SCALE, rounded_series(series, DIGITS), note) if series else None
    return None


Series = dict[str, Sequence[float]]


def along_ray(measurement: Measurement, point: Batch) -> Series:
    """Return errors and allowed errors at multiples of a point, or of a random direction if the
    point is zero; empty if fewer than two can be measured.
    """
    subject, law = measurement.subject, measurement.law
    support, _ = subject.drawn(law.points)
    rows = ray(point.x[0], measurement.seed)
    rows = rows[support.holds(rows)]
    if len(rows) < 2:
        return {}
    context = None if point.context is None else np.repeat(point.context, len(rows), axis=0)
    found = list(_judged(measurement, Batch(rows, context, point.seed)))
    if len(found) < 2:
        return {}
    scale, error, allowed = zip(*found, strict=True)
    own = float(np.abs(point.x).max(initial=0.0))
    return {"scale": scale, "error": error, "allowed": allowed, "own": [own]}


def residual_operands(measurement: Measurement) -> tuple[str, Series]:
    """Return the names and values of the two numbers whose difference or sum is the residual at
    each point; ``("", {})`` if it is neither.
    """
    subject, law = measurement.subject, measurement.law
    batch = example_batch(subject, ORDINARY, law.points)
    residual = measure(law, subject, batch)
    named = [
        (name, values.reshape(-1))
        for name, value in residual.observed.items()
        for values in [np.asarray(value)]
        if values.size == len(batch.x) == len(residual.value) and values.dtype.kind == "f"
    ]
    if len(named) < 2:
        return "", {}
    (first, got), (second, expected) = named[:2]
    for sign, words in ((1.0, "against"), (-1.0, "against minus")):
        gap = np.abs(got - sign * expected)
        if np.allclose(gap, residual.per_row(), rtol=1e-6, atol=1e-12, equal_nan=True):
            compared = {"got": got.tolist(), "expected": (sign * expected).tolist()}
            return f"{first} {words} {second}", compared
    return "", {}


def ray(point: Array, seed: int) -> Array:
    """Return multiples of a point, ``(rows, *event)``, and the point itself, the smallest first."""
    size = np.abs(point).max(initial=0.0)
    direction = point
    if not size or not np.isfinite(size):
        direction = np.random.default_rng(seed_of(seed, "ray") % 2**63).standard_normal(point.shape)
        size = np.abs(direction).max(initial=0.0)
    sizes = np.unique(np.concatenate([SIZES, [size]]))
    scaled = sizes.reshape(-1, *(1,) * point.ndim) * (direction / size)
    return np.where(sizes.reshape(scaled.shape[:1] + (1,) * point.ndim) == size, direction, scaled)


def _judged(measurement: Measurement, batch: Batch) -> list[tuple[float, float, float]]:
    """Input size, error and allowed error of the rows that can be measured; the batch is halved
    while it raises.
    """
    try:
        residual = measure(measurement.law, measurement.subject, batch)
        judgement = judge(replace(measurement, batch=batch, residual=residual), purpose="picture")
    except Exception:  # a row that raises is left out
        half = len(batch.x) // 2
        if not half:
            return []
        parts = slice(0, half), slice(half, None)
        return [row for part in parts for row in _judged(measurement, batch.rows(part))]
    if len(judgement.measurement.size) != len(batch.x):  # the law is about the batch as a whole
        return []
    reach = np.abs(batch.x).reshape(len(batch.x), -1).max(1, initial=0.0)
    silent = judgement.measurement.residual.silent
    rows = zip(reach, judgement.measurement.size, judgement.allowed, silent, strict=True)
    return [(float(x), float(e), float(a)) for x, e, a, quiet in rows if not quiet]
