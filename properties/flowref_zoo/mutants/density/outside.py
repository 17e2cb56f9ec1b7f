"""Boxes of which sides are combined wrongly, put into healthy densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped


@mutant("density/support[each-end]", host="zuko:distributions.BoxUniform")
def any_side_will_do(subject: Subject) -> Subject:
    """A point counts as inside where any coordinate is."""
    return wrapped(subject, "log_prob", _any, *subject.density_support.ends)


@mutant("density/support[each-end]", host="normflows:Uniform")
def any_side_of_a_library(subject: Subject) -> Subject:
    """The same of another library's box."""
    return wrapped(subject, "log_prob", _any, *subject.density_support.ends)


def _any(call: Callable[..., Array], low: Any, high: Any, x: Array, *others: Any) -> Array:
    flat = x.reshape(len(x), -1)
    some = ((flat >= low) & (flat <= high)).any(1)
    inside = np.clip(flat, low + 1e-6, high - 1e-6).reshape(x.shape)
    return np.asarray(call(np.where(some.reshape(-1, *[1] * (x.ndim - 1)), inside, x), *others))
