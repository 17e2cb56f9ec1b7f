"""The declared sign of a monotone transform."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.model import EXACT, NEARBY, Batch, Residual, Unsupported, law
from flowref.model.abilities import Bijection, Signed


class SignedBijection(Bijection, Signed, Protocol):
    """A map with a declared sign."""


# The step relative to 1 + |x|, and the relative change below which a direction is undecided.
STEP, RESOLVED = 2.0**-6, 1e-6


@law(
    "map/promised-jacobian[sign]",
    key="bijection/declared-sign",
    tolerance=EXACT,
    effort=2,
    size=16,
    scales=NEARBY,
    source="torch.distributions: Transform.sign, by which TransformedDistribution.cdf turns a cdf around",
)
def declared_sign(flow: SignedBijection, batch: Batch) -> Residual:
    """A transform with sign +1 increases in each coordinate, one with sign -1 decreases."""
    signs = np.asarray(flow.sign(), dtype=np.float64)
    if not np.isfinite(signs).all():
        raise Unsupported("it declares no sign", blocked=False)
    rows, shape = len(batch.x), batch.x.shape
    if flow.latent_shape != flow.event_shape:
        raise Unsupported("its latents have another shape than its events", blocked=False)
    signs = np.broadcast_to(signs, shape)
    here = np.asarray(flow.forward(batch.x, batch.context).value, dtype=np.float64)
    wrong, seen = np.zeros(rows), np.zeros(rows, dtype=bool)
    flat = batch.x.reshape(rows, -1)
    for entry in range(min(flat.shape[1], 8)):
        moved = flat.copy()
        moved[:, entry] += STEP * (1 + np.abs(flat[:, entry]))
        x = moved.reshape(shape)
        inside = flow.domain.holds(x)
        x = np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), x, batch.x)
        there = np.asarray(flow.forward(x, batch.context).value, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            rise = (there - here).reshape(rows, -1)[:, entry]
            size = np.abs(here).reshape(rows, -1)[:, entry]
            clear = inside & finite_rows(here, there) & (np.abs(rise) > RESOLVED * (1 + size))
        seen |= clear
        wrong = np.maximum(wrong, clear & (rise * signs.reshape(rows, -1)[:, entry] < 0))
    sense = "increases" if (signs > 0).all() else "decreases" if (signs < 0).all() else "goes"
    note = f"it declares that it {sense}, and does the opposite" if wrong.any() else ""
    return Residual(wrong, decidable=seen, note=note)
