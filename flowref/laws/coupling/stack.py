"""Stacks of couplings: what one keeps, another transforms."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.requirements import not_estimator
from flowref.laws.coupling.parts import DINH
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Composite, Differentiable, Flow


class CompositeDifferentiable(Composite, Differentiable, Protocol):
    """CompositeDifferentiable."""


SOURCE = f"{DINH}, section 3.5: what is kept by one layer is transformed by the next"
# So many points show every dependence that there is; and so many couplings are enough to transform
# everything.
ENOUGH, COUPLINGS = 8, 3


def several(flow: Flow) -> str | None:
    """More than one entry, and Jacobians that are those of the map."""
    return "its events have one entry" if np.prod(flow.event_shape) < 2 else not_estimator(flow)


def stacked(flow: Flow) -> str | None:
    """A composite of three couplings or more that promises nothing."""
    count = sum("coupling" in name.lower() for name in flow.parts)
    if count < COUPLINGS:
        return f"fewer than {COUPLINGS} of its parts are called couplings"
    return (
        "coupling/transforms-all judges it"
        if flow.promises.get("transforms-all")
        else several(flow)
    )


def alone(flow: Flow, batch: Batch) -> Array:
    """Which entries of the output depend on one entry of the input or on none, at all of many
    points.
    """
    if len(batch.x) < ENOUGH:
        raise Undecidable("there are too few points to see what depends on what")

    jacobian = np.asarray(flow.jacobian("forward", batch.x, batch.context))
    finite = np.isfinite(jacobian).all((1, 2))
    if finite.sum() < ENOUGH:
        raise Undecidable("the Jacobian is not finite at enough points")
    if jacobian.shape[1] < 2:
        raise Unsupported("its events have one entry")
    return np.asarray((jacobian[finite] != 0).any(0).sum(1) <= 1)


def left(flow: Flow, batch: Batch) -> Residual:
    """The entries that nothing but themselves enters."""
    found = alone(flow, batch)
    places = ", ".join(str(place) for place in np.flatnonzero(found)[:6])
    rows = np.broadcast_to(found.astype(float), (len(batch.x), len(found)))
    return Residual(
        rows.copy(),
        note=f"nothing but one entry of the input enters entry {places}" if found.any() else "",
    )


@law(
    "coupling/transforms-all",
    force=CONTRACT,
    promise="transforms-all",
    tolerance=EXACT,
    effort=2,
    scales=(0.3, 1.0),
    applies=several,
    source=SOURCE,
)
def transforms_all(flow: Differentiable, batch: Batch) -> Residual:
    """Over the stack every entry is transformed by functions of others: no output depends on a
    single input.
    """
    return left(flow, batch)


@law(
    "coupling/stack-transforms-all",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    scales=(0.3, 1.0),
    applies=stacked,
    source=SOURCE,
)
def stack_transforms_all(flow: CompositeDifferentiable, batch: Batch) -> Residual:
    """In a stack of three couplings or more every entry is transformed by functions of others at
    least once.
    """
    return left(flow, batch)
