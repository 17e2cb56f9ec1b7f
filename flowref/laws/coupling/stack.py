"""Stacks of couplings: entries kept by one are transformed by another."""

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
    """A composite with Jacobians by autograd."""


SOURCE = f"{DINH}, section 3.5: what is kept by one layer is transformed by the next"
# Points that show all dependences, and the number of couplings that can transform everything.
ENOUGH, COUPLINGS = 8, 3


@requires("its events have one entry")
def has_entries(flow: Flow) -> bool:
    """Events have more than one entry."""
    return math.prod(flow.event_shape) > 1


@requires(f"fewer than {COUPLINGS} of its parts are called couplings")
def stacks_couplings(flow: Composite) -> bool:
    """There are enough couplings to transform everything."""
    return sum("coupling" in name.lower() for name in flow.parts) >= COUPLINGS


@requires("coupling/stack[promise] judges it")
def promises_nothing(flow: Flow) -> bool:
    """A promise to transform everything is checked by a stronger law."""
    return not flow.promises.get("transforms-all")


# More than one entry, and exact Jacobians.
connected = has_entries & not_estimator


def elementwise_outputs(flow: Differentiable, batch: Batch) -> Array:
    """The output entries that depend on at most one input entry at all of many points, bool
    ``(outputs,)``; fewer points if these already show every dependence.
    """
    jacobian = np.asarray(flow.jacobian("forward", batch.x, batch.context))
    if jacobian.shape[1] < 2:
        raise Unsupported("its events have one entry", blocked=False)
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
    """The residual of output entries that depend on a single input entry only."""
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
    """In the stack every entry is transformed by a function of others: no output is a
    function of one input alone.
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
    """In a stack of three or more couplings every entry is transformed by a function of others at
    least once.
    """
    return left(flow, batch)
