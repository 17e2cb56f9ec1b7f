"""Values that are no numbers where there is one: holes in a map, and ways back that are lost."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import inside, rows_max
from flowref.laws.common.outcomes import attempt, finite, log_det
from flowref.laws.common.requirements import not_estimator
from flowref.model import EXACT, Array, Batch, Call, Mapped, Residual, Undecidable, law, seed_of
from flowref.model.abilities import Bijection, Differentiable, Flow, Invertible, Rounded, offers


class RoundedBijection(Bijection, Rounded, Protocol):
    """A map that can be randomly rounded."""


# Noise of the size of some hundred roundings, so often; values under it agree to this share.
NOISES, RUNS, AGREEING = {"float64": 2.0**-43, "float32": 2.0**-22}, 6, 1e-3
# Ordinary points reach so far, and any so far; images of ordinary size are smaller than this.
ORDINARY, FARTHEST, IMAGES = 16.0, 1e6, 1e6
# So many roundings of the image may move a point by this share and no more, else it is lost in it.
ULPS, TOLD = {"float64": 2.0**-43, "float32": 2.0**-18}, 1e-3


@law(
    "bijection/finite",
    lines=True,
    tolerance=EXACT,
    local=False,
    effort=3,
    size=16,
    scales=(0.0,),
    applies=not_estimator,
    source="0/0 at equal heights and the logarithm of a rounded zero are holes of a formula, not of the map",
)
def finite_everywhere(flow: RoundedBijection, batch: Batch) -> Residual:
    r"""Value and log-det are finite wherever those beside them are, and at ordinary points of a
    declared domain never nan; and from an image of ordinary size, where the map is not saturated,
    the way back is finite.
    """
    x, context = batch.x, batch.context
    out = flow.forward(x, context)
    reach = rows_max(x)
    sound = finite(out, len(x))
    broken = flow.facts.declared & has_nan(out, len(x)) & (reach <= ORDINARY)
    notes = ["forward is not finite where it should be"] if broken.any() else []
    for row in np.flatnonzero(~sound & ~broken & (reach <= FARTHEST)):
        if settles(flow, flow.forward, batch.rows(slice(row, row + 1)), batch.seed):
            broken[row] = True
            notes = ["forward is not finite, and under random rounding it is"]
    observed = {"x": x, "f(x)": out.value}
    if offers(flow, Invertible) and not broken.any() and sound.any():
        back = way_back(flow, batch, out.value)
        if back is not None:
            lost, came = back
            broken |= lost & sound & (reach <= FARTHEST)
            observed["inverse(f(x))"] = came
            notes = ["the way back from an ordinary image is not finite"]
    return Residual(
        broken.astype(float),
        decidable=sound | broken,
        observed=observed,
        note=notes[0] if broken.any() else "",
    )


def has_nan(out: Mapped, rows: int) -> Array:
    """Rows of which value or log-det is nan."""
    flat = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
    return np.asarray(np.isnan(flat).any(1) | np.isnan(log_det(out, rows)))


def settles(flow: Rounded, call: Call[Mapped], point: Batch, seed: int) -> bool:
    """Whether value and log-det of one point are finite in every randomly rounded run, and agree."""
    seen = []
    for run in range(RUNS):
        with flow.noise(seed_of(seed, "finite", run), NOISES[flow.dtype]):
            out, error = attempt(call, point.x, point.context)
        if error or not finite(out, 1).all():
            return False
        seen.append(np.append(np.asarray(out.value, dtype=np.float64).ravel(), log_det(out, 1)))
    runs = np.stack(seen)
    spread = runs.max(0) - runs.min(0)
    return bool((spread <= AGREEING * (1 + np.abs(runs).max(0))).all())


def way_back(flow: Invertible, batch: Batch, y: Array) -> tuple[Array, Array] | None:
    """Where an image of ordinary size comes back as no number though the map moves there, and what
    came back; None where nothing can be asked.
    """
    x, context = batch.x, batch.context
    try:
        image, usable = inside(flow, y)
    except Undecidable:
        return None
    usable &= rows_max(y) <= IMAGES
    back, error = attempt(flow.inverse, image, context)
    if error or back.value.shape != x.shape:  # other laws report it
        return None
    lost = usable & ~finite(back, len(x))
    if flow.promises.get("inverse-tolerance"):  # an iteration may diverge far out
        lost &= rows_max(x) <= ORDINARY
    for row in np.flatnonzero(lost):
        lost[row] = moves(flow, batch.rows(slice(row, row + 1)), y[row : row + 1])
    return lost, np.asarray(back.value)


def moves(flow: Flow, point: Batch, y: Array) -> bool:
    """Whether the image of one point tells it: no direction is lost in the rounding of the image."""
    if not offers(flow, Differentiable) or float(rows_max(point.x)[0]) > FARTHEST:
        return False
    matrix = flow.jacobian("forward", point.x, point.context)[0].astype(np.float64)
    if matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        return False
    try:
        lost = np.abs(np.linalg.inv(matrix)) @ (ULPS[flow.dtype] * (1 + np.abs(y[0].reshape(-1))))
    except np.linalg.LinAlgError:
        return False
    return bool((lost <= TOLD * (1 + np.abs(point.x[0].reshape(-1)))).all())
