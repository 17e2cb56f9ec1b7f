"""What the laws of couplings share: the two parts of an event, and which laws have something to say
about them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.laws.common.requirements import not_estimator
from flowref.model import Array, Coupling, Subject
from flowref.model.abilities import Flow

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803)"
NICE = "Dinh et al. 2015, NICE (arXiv:1410.8516), section 3.2"
Applies = Callable[[Subject], str | None]


def spec(flow: Flow) -> Coupling:
    """What is known of the coupling."""

    return flow.coupling


def binary(flow: Flow) -> bool:
    """Whether the mask consists of zeros and ones."""
    return set(spec(flow).kept) <= {0.0, 1.0}


def parted(flow: Flow) -> str | None:
    """A coupling with a mask of zeros and ones that fits its events and leaves neither part empty."""
    known = spec(flow)
    if len(known.kept) != np.prod(flow.event_shape) or flow.event_shape != flow.latent_shape:
        return "its mask is not that of an event"
    if not binary(flow) or len(set(known.kept)) < 2:
        return "its mask does not divide an event in two; coupling/mask-partition tells"
    return not_estimator(flow)


def entrywise(flow: Flow) -> str | None:
    """A coupling whose transformed entries have a map each."""
    return (
        "its transformed entries are mapped jointly" if spec(flow).kind == "joint" else parted(flow)
    )


def conditioned(flow: Flow) -> str | None:
    """A coupling whose conditioner can be reached."""
    return parted(flow) if spec(flow).conditioner else "its conditioner is not known"


def parts(flow: Flow) -> tuple[Array, Array]:
    """Which entries of a flattened event are kept, and which are transformed."""
    kept = np.asarray(spec(flow).kept) == 1
    return kept, ~kept


def flat(x: Array) -> Array:
    """The entries of each point, ``(batch, entries)``, as float64."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def with_transformed(flow: Flow, x: Array, value: float) -> Array:
    """The points with every transformed entry set to a number."""
    entries = flat(x).copy()
    entries[:, parts(flow)[1]] = value
    return np.asarray(entries.reshape(x.shape))


def line(flow: Flow, x: Array, context: Array | None) -> tuple[Array, Array, Array]:
    """The transformed entries where those of x are 0 and where they are 1: level, slope, and the
    size of what was subtracted.
    """

    moved = parts(flow)[1]
    level, unit = (
        flat(flow.forward(with_transformed(flow, x, value), context).value)[:, moved]
        for value in (0.0, 1.0)
    )
    return level, unit - level, np.abs(level) + np.abs(unit)
