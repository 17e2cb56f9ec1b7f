"""Residual maps that are no contractions, or have log-dets that none has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import ladj_added, ladj_multiplied, wrapped

HOST = "reference:Residual"


@mutant("map/promised-jacobian[lipschitz]", host=HOST, sizes=(0.5, 2.0))
def stretched(subject: Subject, size: float = 1.0) -> Subject:
    """What is added to x moves more than x does."""
    return wrapped(subject, "forward", _stretched, size)


@mutant("map/promised-jacobian[lipschitz]", host=HOST, sizes=(1.0,))
def steep_somewhere(subject: Subject, size: float = 1.0) -> Subject:
    """It is a contraction but for a narrow range of one entry."""
    return wrapped(subject, "forward", _steep, size)


@mutant("map/log-det", host=HOST, sizes=(3.0,))
def log_det_of_more(subject: Subject, size: float = 3.0) -> Subject:
    """A log-det that no such map has."""
    return ladj_added(subject, "forward", size)


@mutant("map/log-det", host=HOST, sizes=(100.0,))
def log_det_times(subject: Subject, size: float = 100.0) -> Subject:
    """Terms of the series are not divided by their number, and the like."""
    return ladj_multiplied(subject, "forward", 1 + size)


def _stretched(call: Callable[..., Mapped], size: float, x: Array, *others: Any) -> Mapped:
    out = call(x, *others)
    return Mapped(np.asarray(out.value) + size * x, out.ladj)


def _steep(call: Callable[..., Mapped], size: float, x: Array, *others: Any) -> Mapped:
    out = call(x, *others)
    value = np.array(out.value, dtype=np.float64)
    flat, entries = value.reshape(len(value), -1), x.reshape(len(x), -1)
    flat[:, 0] += 0.3 * size * np.tanh(10 * entries[:, 0])
    return Mapped(value, out.ladj)
