"""A gradient that misses what draws, put into a healthy layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import wrapped


@mutant("gradient/parameters[drawn-contribution]", host="reference:Augment", sizes=(0.1, 0.5, 1.0))
def a_drawn_sample_is_detached(subject: Subject, size: float = 1.0) -> Subject:
    """What is added does not carry its part of the gradient back."""
    return wrapped(subject, "slope", _less, size)


def _less(call: Callable[..., float], size: float, *inputs: Any) -> float:
    return (1 - size) * call(*inputs)
