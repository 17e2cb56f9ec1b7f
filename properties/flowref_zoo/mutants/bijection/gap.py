"""Gaps in images, put into healthy maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

Map = Callable[..., Mapped]
BOUND = 3.0


def _lifted(call: Map, size: float, x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    return Mapped(out.value + size * (x > BOUND), out.ladj)


def _lowered(call: Map, size: float, z: Array, context: Array | None = None) -> Mapped:
    below, above = call(z, context), call(z - size, context)
    value = np.where(below.value <= BOUND, below.value, np.maximum(above.value, BOUND))
    return Mapped(value, below.ladj)


@mutant("map/inverse[gap]", host="nflows:PointwiseAffineTransform", sizes=(1e-3, 0.02))
def tail_begins_higher(subject: Subject, size: float = 0.01) -> Subject:
    """Beyond a bound a map goes on a little higher, and its inverse knows where."""
    return wrapped(wrapped(subject, "forward", _lifted, size), "inverse", _lowered, size)
