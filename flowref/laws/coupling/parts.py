"""What the laws of couplings share: the two parts of an event, and which laws have something to say
about them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.laws.common.outcomes import not_estimator
from flowref.model import Array, Coupling, Subject

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803)"
NICE = "Dinh et al. 2015, NICE (arXiv:1410.8516), section 3.2"
Applies = Callable[[Subject], str | None]


def spec(subject: Subject) -> Coupling:
    """What is known of the coupling."""
    assert subject.coupling is not None
    return subject.coupling


def binary(subject: Subject) -> bool:
    """Whether the mask consists of zeros and ones."""
    return set(spec(subject).kept) <= {0.0, 1.0}


def parted(subject: Subject) -> str | None:
    """A coupling with a mask of zeros and ones that fits its events and leaves neither part empty."""
    known = spec(subject)
    if (
        len(known.kept) != np.prod(subject.event_shape)
        or subject.event_shape != subject.latent_shape
    ):
        return "its mask is not that of an event"
    if not binary(subject) or len(set(known.kept)) < 2:
        return "its mask does not divide an event in two; coupling/mask-partition tells"
    return not_estimator(subject)


def entrywise(subject: Subject) -> str | None:
    """A coupling whose transformed entries have a map each."""
    return (
        "its transformed entries are mapped jointly"
        if spec(subject).kind == "joint"
        else parted(subject)
    )


def conditioned(subject: Subject) -> str | None:
    """A coupling whose conditioner can be reached."""
    return parted(subject) if spec(subject).conditioner else "its conditioner is not known"


def parts(subject: Subject) -> tuple[Array, Array]:
    """Which entries of a flattened event are kept, and which are transformed."""
    kept = np.asarray(spec(subject).kept) == 1
    return kept, ~kept


def flat(x: Array) -> Array:
    """The entries of each point, ``(batch, entries)``, as float64."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def with_transformed(subject: Subject, x: Array, value: float) -> Array:
    """The points with every transformed entry set to a number."""
    entries = flat(x).copy()
    entries[:, parts(subject)[1]] = value
    return np.asarray(entries.reshape(x.shape))


def line(subject: Subject, x: Array, context: Array | None) -> tuple[Array, Array, Array]:
    """The transformed entries where those of x are 0 and where they are 1: level, slope, and the
    size of what was subtracted.
    """
    assert subject.forward is not None
    moved = parts(subject)[1]
    level, unit = (
        flat(subject.forward(with_transformed(subject, x, value), context).value)[:, moved]
        for value in (0.0, 1.0)
    )
    return level, unit - level, np.abs(level) + np.abs(unit)
