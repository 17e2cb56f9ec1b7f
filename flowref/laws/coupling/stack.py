"""Stacks of couplings: what one keeps, another transforms."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.requirements import not_estimator
from flowref.laws.coupling.parts import DINH
from flowref.model import (
    ADVICE,
    AWAY,
    CONTRACT,
    EXACT,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Composite, Differentiable, Flow


class DifferentiableComposite(Composite, Differentiable, Protocol):
    """A composite whose Jacobian the framework gives."""


SOURCE = f"{DINH}, section 3.5: what is kept by one layer is transformed by the next"
# So many points show every dependence that there is; and so many couplings are enough to transform
# everything.
ENOUGH, COUPLINGS = 8, 3


@requires("its events have one entry")
def has_entries(flow: Flow) -> bool:
    """Events of more than one entry."""
    return math.prod(flow.event_shape) > 1


@requires(f"fewer than {COUPLINGS} of its parts are called couplings")
def stacks_couplings(flow: Composite) -> bool:
    """Enough couplings to transform everything."""
    return sum("coupling" in name.lower() for name in flow.parts) >= COUPLINGS


@requires("coupling/stack[promise] judges it")
def promises_nothing(flow: Flow) -> bool:
    """What promises to transform everything is held to that, rather than advised."""
    return not flow.promises.get("transforms-all")


# More than one entry, and Jacobians that are those of the map.
connected = has_entries & not_estimator


def elementwise_outputs(flow: Differentiable, batch: Batch) -> Array:
    """Which entries of the output depend on one entry of the input or on none, at all of many
    points; few do where they show a dependence of every entry, which more could not take back.
    """
    jacobian = np.asarray(flow.jacobian("forward", batch.x, batch.context))
    if jacobian.shape[1] < 2:
        raise Unsupported("its events have one entry", waits=False)
    finite = np.isfinite(jacobian).all((1, 2))
    single = np.asarray((jacobian[finite] != 0).any(0).sum(1) <= 1)
    if single.any() and finite.sum() < ENOUGH:
        few = len(batch.x) < ENOUGH
        raise Undecidable(
            "there are too few points to see what depends on what"
            if few
            else "the Jacobian is not finite at enough points"
        )
    return single


def left(flow: Differentiable, batch: Batch) -> Residual:
    """The entries that nothing but themselves enters."""
    single = elementwise_outputs(flow, batch)
    entries = ", ".join(str(entry) for entry in np.flatnonzero(single)[:6])
    rows = np.broadcast_to(single.astype(float), (len(batch.x), len(single)))
    return Residual(
        rows.copy(),
        note=f"nothing but one entry of the input enters entry {entries}" if single.any() else "",
    )


@law(
    "coupling/stack[promise]",
    key="coupling/transforms-all",
    force=CONTRACT,
    promise="transforms-all",
    tolerance=EXACT,
    effort=2,
    scales=AWAY,
    applies=connected,
    source=SOURCE,
)
def transforms_all(flow: Differentiable, batch: Batch) -> Residual:
    """Over the stack every entry is transformed by functions of others: no output depends on a
    single input.
    """
    return left(flow, batch)


@law(
    "coupling/stack",
    key="coupling/stack-transforms-all",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    scales=AWAY,
    applies=stacks_couplings & promises_nothing & connected,
    source=SOURCE,
)
def stack_transforms_all(flow: DifferentiableComposite, batch: Batch) -> Residual:
    """In a stack of three couplings or more every entry is transformed by functions of others at
    least once.
    """
    return left(flow, batch)
