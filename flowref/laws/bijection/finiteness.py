"""Non-finite values at ordinary points: holes in a map, and preimages that are lost."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import invertible_images, rows_max
from flowref.laws.common.end_rounding import is_no_end, representable
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, row_log_dets
from flowref.laws.common.requirements import repeatable
from flowref.model import (
    EXACT,
    GIVEN,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Undecidable,
    draw_points,
    law,
    seed_of,
)
from flowref.model.abilities import Bijection, Differentiable, Flow, Invertible, Rounded, offers


class RoundedBijection(Bijection, Rounded, Protocol):
    """A map under random rounding."""


# Noise of some hundred roundings, the number of runs, and the relative agreement of values under
# noise.
NOISES, RUNS, AGREEING = {"float64": 2.0**-43, "float32": 2.0**-22}, 6, 1e-3
# At most this many suspicious points of a batch are examined.
EXAMINED = 16
# For larger events no Jacobian is computed to decide whether rounding loses a point.
DIFFERENTIATED = 256
# Limits of ordinary points, of any points, and of ordinary images.
ORDINARY, FARTHEST, IMAGES = 16.0, 1e6, 1e6
# Images of points this near are accepted by an inverse; at least one of this many others must be.
NEAR, OTHERS = 4.0, 4
# Number of training points that must agree; a large log-det that is still finite in single
# precision (per number of entries); relative agreement of values in both precisions.
SEVERAL, LARGE, LARGEST, ALIKE = 2, 60.0, 1e5, 1e-2
# Noise of the image in units, and the relative displacement of the point from which on it counts as
# lost.
ULPS, RESOLVED = {"float64": 2.0**-43, "float32": 2.0**-18}, 1e-3


@law(
    "map/finite",
    key="bijection/finite",
    version=4,
    scanned=True,
    tolerance=EXACT,
    local=False,
    effort=4,
    size=16,
    scales=GIVEN,
    applies=repeatable,
    source="0/0 at equal heights and the logarithm of a rounded zero are holes of a formula, not of the map",
    pointwise=True,
)
def finite_everywhere(flow: RoundedBijection, batch: Batch) -> Residual:
    """Value and log-det are finite wherever those of nearby points are, and never nan at ordinary
    points of a declared domain or of given data. The inverse of an ordinary image is finite unless
    the map is saturated. A large log-det is finite in single precision as well, at one of several
    ordinary points at least: it is not the logarithm of an underflowing product.
    """
    x, context = batch.x, batch.context
    out = flow.forward(x, context)
    reach = rows_max(x)
    sound = finite_outcome_rows(out, len(x))
    declared = flow.facts.declared or flow.facts.at_data
    broken = declared & has_nan(out, len(x)) & (reach <= ORDINARY)
    notes = ["forward is not finite where it should be"] if broken.any() else []
    rows = some(~sound & ~broken & (reach <= FARTHEST))
    if len(rows) and settles(flow, flow.forward, batch.rows(rows), batch.seed).any():
        for row in rows:  # one by one: whether a row is finite must not depend on the others
            broken[row] = settles(flow, flow.forward, batch.rows([row]), batch.seed)[0]
        if broken.any():
            notes = ["forward is not finite, and under random rounding it is"]
    observed = {"x": x, "f(x)": out.value}
    if offers(flow, Invertible) and not broken.any() and sound.any():
        back = way_back(flow, batch, out.value)
        if back is not None:
            lost, came, note = back
            broken |= lost & sound & (reach <= FARTHEST)
            observed |= {} if came is None else {"inverse(f(x))": came}
            notes = [note]
    if not broken.any() and (nowhere := without_log_det(out, reach)).any():
        broken |= nowhere
        notes = ["the values are finite, and no ordinary point has a log-det: it is nan at each"]
    if not broken.any() and (lost := underflowing(flow, batch, out, sound & (reach <= NEAR))).any():
        broken |= lost
        notes = ["the log-det is finite, and in single precision it is not at any ordinary point"]
    return Residual(
        broken.astype(float),
        decidable=sound | broken,
        observed=observed,
        note=notes[0] if broken.any() else "",
    )


def underflowing(flow: Bijection, batch: Batch, out: Mapped, ordinary: Array) -> Array:
    """Ordinary points with a large log-det that is not finite in single precision at any of them,
    though the value agrees, ``(n,)``; none if there are too few points.
    """
    nowhere = np.zeros(len(batch.x), dtype=bool)
    claimed = row_log_dets(out, len(batch.x))
    # Numbers without a representation in single precision, as 5e-324, are not ordinary.
    ordinary &= representable(batch.x, flow.domain)
    rows = some(ordinary & (np.abs(claimed) >= LARGE) & (np.abs(claimed) <= LARGEST))
    if flow.dtype != "float64" or len(rows) < SEVERAL:
        return nowhere
    points = batch.rows(rows)
    inputs = (np.asarray(points.x, dtype=np.float32).astype(np.float64), points.context)
    single, error = attempt(flow.forward.under, *inputs, dtype="float32")
    if error or np.shape(single.value) != np.shape(out.value[rows]):
        return nowhere
    value = np.asarray(single.value, dtype=np.float64).reshape(len(rows), -1)
    exact = np.asarray(out.value[rows], dtype=np.float64).reshape(len(rows), -1)
    with np.errstate(all="ignore"):
        alike = (np.abs(value - exact) <= ALIKE * (1 + np.abs(exact))).all(1)
    if alike.all() and not np.isfinite(row_log_dets(single, len(rows))).any():
        nowhere[rows] = True
    return nowhere


def some(suspected: Array) -> Array:
    """Row indices of the suspected points, evenly thinned to `EXAMINED`."""
    rows = np.flatnonzero(suspected)
    if len(rows) > EXAMINED:
        rows = rows[np.linspace(0, len(rows) - 1, EXAMINED).astype(int)]
    return np.asarray(rows)


def without_log_det(out: Mapped, reach: Array) -> Array:
    """Ordinary points if each has a finite value and none a finite log-det, ``(n,)``; none if
    there are too few points.
    """
    rows = len(reach)
    ordinary = reach <= NEAR
    value = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
    valued = np.isfinite(value[ordinary]).all()
    lost = bool(valued and np.isnan(row_log_dets(out, rows))[ordinary].all())
    return np.asarray(ordinary & (lost and ordinary.sum() >= SEVERAL))


def has_nan(out: Mapped, rows: int) -> Array:
    """The rows with nan in value or log-det, ``(rows,)``."""
    flat = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
    return np.asarray(np.isnan(flat).any(1) | np.isnan(row_log_dets(out, rows)))


def settles(flow: Rounded, call: Call[Mapped], points: Batch, seed: int) -> Array:
    """The points whose value and log-det are finite and agree in every randomly rounded run,
    ``(n,)``.
    """
    rows, seen = len(points.x), []
    settled = np.ones(rows, dtype=bool)
    for run in range(RUNS):
        with flow.noise(seed_of(seed, "finite", run), NOISES[flow.dtype]):
            out, error = attempt(call, points.x, points.context)
        if error:
            return np.zeros(rows, dtype=bool)
        settled &= finite_outcome_rows(out, rows)
        if not settled.any():
            return settled
        values = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
        seen.append(np.concatenate([values, row_log_dets(out, rows).reshape(rows, 1)], 1))
    runs = np.stack(seen)
    with np.errstate(invalid="ignore"):
        agree = np.ptp(runs, 0) <= AGREEING * (1 + np.abs(runs).max(0))
    return np.asarray(settled & agree.all(1))


def way_back(flow: Invertible, batch: Batch, y: Array) -> tuple[Array, Array | None, str] | None:
    """Where an ordinary image has no finite preimage, or the inverse raises, though the map moves
    there, ``(n,)``; the preimages, and a note. None if nothing can be tested.
    """
    x, context = batch.x, batch.context
    try:
        image, usable = invertible_images(flow, y)
    except Undecidable:
        return None
    usable &= rows_max(y) <= IMAGES
    back, error = attempt(flow.inverse, image, context)
    if error:
        refused = raising(flow, batch, image, usable & (rows_max(x) <= NEAR))
        rows = np.flatnonzero(refused)
        if len(rows):
            refused[rows] = distinguishable_points(flow, batch.rows(rows), y[rows])
        message = error.rstrip(": ")
        return refused, None, f"at an ordinary image the inverse raises {message}"
    if back.value.shape != x.shape:  # another law reports it
        return None
    lost = usable & ~finite_outcome_rows(back, len(x))
    if flow.certainty.inverse:  # an iteration may diverge far out
        lost &= rows_max(x) <= ORDINARY
    rows = some(lost & (rows_max(x) <= FARTHEST))
    lost[:] = False
    if len(rows):
        lost[rows] = distinguishable_points(flow, batch.rows(rows), y[rows])
    return lost, np.asarray(back.value), "at an ordinary image the inverse is not finite"


def raising(flow: Invertible, batch: Batch, image: Array, asked: Array) -> Array:
    """One image that the inverse rejects twice, alone, as a mask ``(n,)``. All False if the
    inverse is a search, which may report failure, or rejects other images too, which other laws
    report.
    """
    refused = np.zeros(len(image), dtype=bool)
    guilty = np.flatnonzero(asked)
    if flow.certainty.inverse:
        return refused

    def refuses(some: Array) -> bool:
        context = None if batch.context is None else batch.context[some]
        return bool(len(some) and attempt(flow.inverse, image[some] + 0.0, context)[1])

    while len(guilty) > 1:
        half, other = np.array_split(guilty, 2)
        guilty = half if refuses(half) else other
    refused[guilty] = (
        refuses(guilty) and refuses(np.repeat(guilty, 2)) and takes_any(flow, batch, guilty)
    )
    return refused


def takes_any(flow: Invertible, batch: Batch, row: Array) -> bool:
    """Whether the inverse accepts an image of ordinary points under the context of a row."""
    rng = np.random.default_rng(seed_of(batch.seed, "ordinary"))
    context = None if batch.context is None else batch.context[row]
    for x in draw_points(flow.domain, (OTHERS, 1, *flow.event_shape), rng):
        out, error = attempt(flow.forward, x, context)
        if not error and not attempt(flow.inverse, out.value + 0.0, context)[1]:
            return True
    return False


def distinguishable_points(flow: Flow, points: Batch, y: Array) -> Array:
    """The points that their image determines, ``(n,)``: no direction is lost in its rounding."""
    rows = len(points.x)
    if not offers(flow, Differentiable) or y[0].size > DIFFERENTIATED:
        return np.zeros(rows, dtype=bool)
    matrices = flow.jacobian("forward", points.x, points.context).astype(np.float64)
    resolved = np.zeros(rows, dtype=bool)
    if matrices.shape[1] != matrices.shape[2]:
        return resolved
    for row in np.flatnonzero(np.isfinite(matrices).all((1, 2))):
        rounded = ULPS[flow.dtype] * (1 + np.abs(y[row].reshape(-1)))
        try:
            lost = np.abs(np.linalg.inv(matrices[row])) @ rounded
        except np.linalg.LinAlgError:
            continue
        resolved[row] = (lost <= RESOLVED * (1 + np.abs(points.x[row].reshape(-1)))).all()
        resolved[row] = resolved[row] and is_no_end(flow, points.rows(slice(row, row + 1)), y[row])
    return resolved
