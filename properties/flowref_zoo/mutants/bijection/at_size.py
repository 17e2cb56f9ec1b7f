"""Defects of maps too large for a Jacobian, put into healthy subjects of that size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import ladj_added, ladj_changed, wrapped

COUPLING, GLOW = "flowref_zoo.specimens.wide:coupling", "flowref_zoo.specimens.wide:glow"
PLAIN = "flowref_zoo.specimens.wide_plain:image"
MATRIX, CIRCULAR = (f"flowref_zoo.specimens.wide_dense:{name}" for name in ("matrix", "circular"))


def _in_single(ladj: Array, x: Array) -> Array:
    return np.asarray(np.asarray(ladj, dtype=np.float32), dtype=np.float64)


def _underflowing(ladj: Array, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.log(np.exp(np.asarray(ladj, dtype=np.float64)))


def _once(ladj: Array, x: Array) -> Array:
    return np.asarray(ladj) / np.prod(x.shape[2:])


@mutant("map/log-det", host=GLOW)
def log_det_in_single(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of several hundred entries is summed up in single precision."""
    return ladj_changed(subject, "forward", _in_single)


@mutant("map/log-det", host=COUPLING)
def product_before_the_logarithm(subject: Subject, size: float = 1.0) -> Subject:
    """The scales of 392 entries are multiplied before their logarithm is taken."""
    return ladj_changed(subject, "forward", _underflowing)


@mutant("map/log-det", host=PLAIN, sizes=(1e-8, 1.0))
def plain_functions_off(subject: Subject, size: float = 1e-6) -> Subject:
    """The log-det of a thousand entries of plain functions is off by little."""
    return ladj_added(subject, "forward", size)


@mutant("map/log-det", host=MATRIX, sizes=(1e-6, 1.0))
def dense_matrix_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det of a matrix of a thousand entries a side is off by little."""
    return ladj_added(subject, "forward", size)


@mutant("map/log-det", host=CIRCULAR, sizes=(1e-6, 1.0))
def convolution_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det of a convolution without borders is off by little."""
    return ladj_added(subject, "forward", size)


@mutant("map/log-det[inverse]", host=GLOW)
def positions_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is that of one position, and not of all."""
    return ladj_changed(subject, "inverse", _once)


def _detached(
    vjp: Callable[..., Array],
    which: str,
    x: Array,
    context: Array | None,
    value: Array | None,
    *others: Any,
) -> Array:
    gradient = np.array(vjp(which, x, context, value, *others))
    if which == "inverse":
        gradient.reshape(len(gradient), -1)[:, 0] = 0.0
    return gradient


def _without_a_column(
    jacobian: Callable[..., Array], which: str, x: Array, context: Array | None = None
) -> Array:
    matrices = np.array(jacobian(which, x, context))
    if which == "inverse":
        matrices[..., 0] = 0.0
    return matrices


@mutant("map/inverse-jacobian", host=COUPLING)
def one_entry_detached(subject: Subject, size: float = 1.0) -> Subject:
    """One entry of many is detached in the inverse."""
    return wrapped(wrapped(subject, "vjp", _detached), "jacobian", _without_a_column)


def _peeking(
    vjp: Callable[..., Array],
    size: float,
    which: str,
    x: Array,
    context: Array | None,
    value: Array | None,
    *others: Any,
) -> Array:
    gradient = np.array(vjp(which, x, context, value, *others))
    if value is not None:
        rows, pulled = gradient.reshape(len(gradient), -1), value.reshape(len(value), -1)
        rows[:, -1] += size * pulled[:, -2]
    return gradient


@mutant("coupling/pattern[conditioner]", host=COUPLING, sizes=(1e-12, 1e-3))
def one_entry_of_many_seen(subject: Subject, size: float = 1e-6) -> Subject:
    """One transformed entry of hundreds hears another one."""
    return wrapped(subject, "vjp", _peeking, size)
