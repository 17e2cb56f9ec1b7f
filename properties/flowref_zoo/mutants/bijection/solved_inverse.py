"""Gradients of a search in place of those of what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

SOLVED = "zuko:MonotonicTransform"


def _off(jacobian: Callable[..., Array], size: float, which: str, *inputs: Any) -> Array:
    matrix = jacobian(which, *inputs)
    return matrix * (1 + size) if which == "inverse" else matrix


@mutant("map/inverse-jacobian[solver]", host=SOLVED, sizes=(0.05, 1.0))
def gradient_of_the_bracket(subject: Subject, size: float = 1.0) -> Subject:
    """The gradient of the inverse is off by a factor, as that of the ends of its first bracket is."""
    return wrapped(subject, "jacobian", _off, size)
