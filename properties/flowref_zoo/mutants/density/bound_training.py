"""Bounds that are trained in part, or across rows, put into healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

HOST = "flowref_zoo.specimens.bounds:variational"


@mutant("gradient/parameters[bound]", host=HOST, sizes=(0.1, 0.5, 1.0))
def a_sample_is_detached(subject: Subject, size: float = 1.0) -> Subject:
    """What is drawn does not carry its part of the gradient back."""
    return wrapped(subject, "slope", _less, size)


@mutant("same/rows[bound]", host=HOST, sizes=(0.02, 0.2, 1.0))
def mean_over_the_batch(subject: Subject, size: float = 0.2) -> Subject:
    """Bounds lean toward the mean over their batch, as where samples are grouped by the wrong axis."""
    return wrapped(subject, "log_prob", _leaning, size)


def _less(call: Callable[..., float], size: float, *inputs: Any) -> float:
    return (1 - size) * call(*inputs)


def _leaning(call: Callable[..., Array], size: float, x: Array, *others: Any) -> Array:
    value = np.asarray(call(x, *others), dtype=np.float64)
    return (1 - size) * value + size * np.nanmean(value)
