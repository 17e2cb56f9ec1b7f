"""What the laws of couplings share: the two parts of an event, and the conditions under which the
laws speak.
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
    """What divides events in two, whatever it does to the parts."""

    @property
    def coupling(self) -> Coupling:
        """How it divides them."""


class LivingCoupling(Coupled, Living, Protocol):
    """A coupling that is trained, put into modes, or given another conditioner."""


def binary(flow: Masked) -> bool:
    """Whether the mask consists of zeros and ones."""
    return set(flow.coupling.kept) <= {0.0, 1.0}


def kept_and_transformed(flow: Coupled) -> tuple[Array, Array]:
    """Which entries of a flattened event are kept, and which are transformed."""
    kept = np.asarray(flow.coupling.kept) == 1
    return kept, ~kept


def flat_entries(x: Array) -> Array:
    """The entries of each point, ``(batch, entries)``, as float64."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def with_transformed(flow: Coupled, x: Array, value: float) -> Array:
    """The points with every transformed entry set to a number."""
    entries = flat_entries(x).copy()
    entries[:, kept_and_transformed(flow)[1]] = value
    return np.asarray(entries.reshape(x.shape))


def level_and_slope(flow: Coupled, x: Array, context: Array | None) -> tuple[Array, Array, Array]:
    """The transformed entries where those of x are 0 and where they are 1: level, slope, and the
    size of what was subtracted.
    """
    moved = kept_and_transformed(flow)[1]
    level, unit = (
        flat_entries(flow.forward(with_transformed(flow, x, value), context).value)[:, moved]
        for value in (0.0, 1.0)
    )
    return level, unit - level, np.abs(level) + np.abs(unit)


# Conditions


@requires("its mask is not that of an event", waits=True)
def mask_fits(flow: Coupled) -> bool:
    """The mask has an entry for each of an event, whose shape the coupling keeps."""
    shape = flow.event_shape
    return len(flow.coupling.kept) == math.prod(shape) and shape == flow.latent_shape


@requires("its mask does not divide an event in two: see coupling/masks[partition]", waits=True)
def mask_divides(flow: Coupled) -> bool:
    """The mask consists of zeros and ones, and of both."""
    return binary(flow) and len(set(flow.coupling.kept)) == 2


@requires(
    "its conditioner is not known",
    waits=True,
    remedy="say which module gives its parameters, in Coupling(conditioner=...)",
)
def conditioner_known(flow: Coupled) -> bool:
    """The conditioner can be reached."""
    return bool(flow.coupling.conditioner)


# A mask of zeros and ones that fits the events and leaves neither part empty.
in_two_parts = mask_fits & mask_divides & not_estimator
conditioned = conditioner_known & in_two_parts
