"""Shared by laws of couplings: the two parts of an event, and the conditions under which laws
apply.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.requirements import not_estimator
from flowref.model import Array, Coupling, requires
from flowref.model.abilities import Coupled, Flow, Living

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803)"
NICE = "Dinh et al. 2015, NICE (arXiv:1410.8516), section 3.2"


class Masked(Flow, Protocol):
    """A flow that divides events into two parts."""

    @property
    def coupling(self) -> Coupling:
        """The division."""


class LivingCoupling(Coupled, Living, Protocol):
    """A coupling that can be trained, put into modes, or given another conditioner."""


def binary(flow: Masked) -> bool:
    """Whether the mask consists of zeros and ones only."""
    return set(flow.coupling.kept) <= {0.0, 1.0}


def kept_and_transformed(flow: Coupled) -> tuple[Array, Array]:
    """Masks of the kept and of the transformed entries of a flattened event, ``(entries,)`` each."""
    kept = np.asarray(flow.coupling.kept) == 1
    return kept, ~kept


def flat_entries(x: Array) -> Array:
    """The entries of each point, ``(n, entries)``, in float64."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def with_transformed(flow: Coupled, x: Array, value: float) -> Array:
    """The points ``(n, *event)`` with every transformed entry set to ``value``."""
    entries = flat_entries(x).copy()
    entries[:, kept_and_transformed(flow)[1]] = value
    return np.asarray(entries.reshape(x.shape))


def level_and_slope(flow: Coupled, x: Array, context: Array | None) -> tuple[Array, Array, Array]:
    """Level and slope of the transformed entries, from outputs at 0 and at 1, ``(n,
    transformed)``, and the size of the subtracted terms.
    """
    moved = kept_and_transformed(flow)[1]
    level, unit = (
        flat_entries(flow.forward(with_transformed(flow, x, value), context).value)[:, moved]
        for value in (0.0, 1.0)
    )
    return level, unit - level, np.abs(level) + np.abs(unit)


# Conditions


@requires("its mask is not that of an event", blocked=True)
def mask_fits(flow: Coupled) -> bool:
    """The mask has the shape of an event, which the coupling preserves."""
    shape = flow.event_shape
    return len(flow.coupling.kept) == math.prod(shape) and shape == flow.latent_shape


@requires("its mask does not divide an event in two: see coupling/masks[partition]", blocked=True)
def mask_divides(flow: Coupled) -> bool:
    """The mask consists of zeros and ones, and has both."""
    return binary(flow) and len(set(flow.coupling.kept)) == 2


@requires(
    "its conditioner is not known",
    blocked=True,
    remedy="say which module gives its parameters, in Coupling(conditioner=...)",
)
def conditioner_known(flow: Coupled) -> bool:
    """The conditioner can be called."""
    return bool(flow.coupling.conditioner)


# A mask of zeros and ones that fits the events, with both parts nonempty.
in_two_parts = mask_fits & mask_divides & not_estimator
conditioned = conditioner_known & in_two_parts
