"""Gradients through the way back that are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped


def _lost(vjp: Callable[..., Array], bound: float, which: str, z: Array, *others: Any) -> Array:
    gradient = np.array(vjp(which, z, *others))
    if which == "inverse":
        gradient[(np.abs(z) > bound).reshape(len(z), -1).any(1)] = np.nan
    return gradient


@mutant("gradient/finite[inverse]", host="nflows:AffineCouplingTransform", sizes=(0.0, 2.0))
def lost_beyond(subject: Subject, size: float = 1.0) -> Subject:
    """Beyond a bound a root of a negative number is not chosen, and its gradient is."""
    return wrapped(subject, "vjp", _lost, size)


@mutant("gradient/finite[inverse]", host="zuko:NSF", sizes=(1.0,))
def lost_beyond_the_interval(subject: Subject, size: float = 1.0) -> Subject:
    """The same of a spline, outside its interval."""
    return wrapped(subject, "vjp", _lost, size)
