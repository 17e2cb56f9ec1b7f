"""Defects of bijections that show at single points, in tails and behind clamps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import (
    Asked,
    answered,
    ladj_added,
    ladj_changed,
    value_changed,
    wrapped,
)

AFFINE = "nflows:AffineCouplingTransform"
ELEMENTWISE = "torch:AffineTransform"
KNOT, TAIL = 2.5, 3e4

Jacobian = Callable[..., Array]
Map = Callable[..., Mapped]


def _at_knot(size: float, value: Array) -> Array:
    return np.where(value == KNOT, value + size, value)


@mutant("map/inverse", host=AFFINE, sizes=(1e-6, 1e-2))
def inverse_wrong_at_a_knot(subject: Subject, size: float = 1e-2) -> Subject:
    """The inverse is wrong at a single number, which belongs to neither side of a comparison."""
    return value_changed(subject, "inverse", partial(_at_knot, size))


def _in_the_tail(size: float, ladj: Array, x: Array) -> Array:
    far = np.abs(x).reshape(len(x), -1).max(1) > TAIL
    return np.asarray(ladj + size * far.reshape(-1, *[1] * (np.ndim(ladj) - 1)))


@mutant("map/log-det", host=AFFINE, sizes=(1e-8, 1e-4))
def log_det_wrong_in_the_tail(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det is wrong only where a coordinate is beyond thirty thousand."""
    return ladj_changed(subject, "forward", partial(_in_the_tail, size))


def _reflected(x: Array, bound: float) -> Array:
    return np.where(x > bound, 2 * bound - x, x)


def _folding(call: Map, bound: float, x: Array, context: Array | None = None) -> Mapped:
    return call(_reflected(x, bound), context)


def _folding_jacobian(
    jacobian: Jacobian, bound: float, which: str, x: Array, context: Array | None = None
) -> Array:
    if which != "forward":
        return jacobian(which, x, context)
    signs = np.where(x > bound, -1.0, 1.0).reshape(len(x), 1, -1)
    return jacobian(which, _reflected(x, bound), context) * signs


@mutant("map/one-to-one[orientation]", host=ELEMENTWISE, sizes=(3.0, 5e4))
def folded_at_a_bound(subject: Subject, size: float = 3.0) -> Subject:
    """Beyond a bound the map turns back, with a log-det that does not show it."""
    folding = wrapped(subject, "forward", _folding, size)
    return wrapped(folding, "jacobian", _folding_jacobian, size)


def _clamping(call: Map, bound: float, x: Array, context: Array | None = None) -> Mapped:
    return call(np.clip(x, -bound, bound), context)


def _clamping_jacobian(
    jacobian: Jacobian, bound: float, which: str, x: Array, context: Array | None = None
) -> Array:
    if which != "forward":
        return jacobian(which, x, context)
    inside = (np.abs(x) <= bound).astype(float).reshape(len(x), 1, -1)
    return np.asarray(jacobian(which, np.clip(x, -bound, bound), context) * inside)


@mutant("map/singular-jacobian", host=AFFINE, sizes=(7.0, 2e4))
def clamped_input(subject: Subject, size: float = 7.0) -> Subject:
    """The input is clamped, for stability, and the log-det is that of the map without the clamp."""
    clamping = wrapped(subject, "forward", _clamping, size)
    return wrapped(clamping, "jacobian", _clamping_jacobian, size)


@mutant("map/finite", host="torch:IndependentTransform", sizes=(3.0, 2.5))
def hole_at_a_number(subject: Subject, size: float = 2.5) -> Subject:
    """At a single number of its input the map is 0/0."""
    return wrapped(subject, "forward", _holed, size)


def _holed(call: Map, size: float, x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    hole = (x == size).reshape(len(x), -1).any(1).reshape(-1, *[1] * (out.value.ndim - 1))
    return Mapped(np.where(hole, np.nan, out.value), out.ladj)


def _lost(size: float, value: Array) -> Array:
    return np.where(np.abs(value) > size, np.nan, value)


@mutant("map/finite", host=ELEMENTWISE, sizes=(30.0, 1e5))
def way_back_lost(subject: Subject, size: float = 1e5) -> Subject:
    """The inverse takes the root of a number that is negative far out."""
    return value_changed(subject, "inverse", partial(_lost, size))


def _product(size: float, out: Mapped, asked: Asked) -> Mapped:
    if asked.manner.dtype != "float32":
        return out
    with np.errstate(all="ignore"):
        product = np.exp(np.minimum(np.asarray(out.ladj, dtype=np.float64), -size))
        return Mapped(out.value, np.log(product.astype(np.float32)))


@mutant("map/finite", host=AFFINE, sizes=(150.0, 600.0))
def logarithm_of_a_product_in_single(subject: Subject, size: float = 150.0) -> Subject:
    """The log-det is the logarithm of a product, which is zero in single precision alone."""
    return answered(ladj_added(subject, "forward", -size), partial(_product, size))


@mutant("map/finite", host=ELEMENTWISE, sizes=(2.0, 5.0))
def way_back_refused(subject: Subject, size: float = 5.0) -> Subject:
    """The inverse asserts what holds within its interval alone, though the map goes on outside it
    (pyro issue 3139).
    """
    return wrapped(subject, "inverse", _refusing, size)


def _refusing(call: Map, size: float, z: Array, context: Array | None = None) -> Mapped:
    if (np.abs(z) > size).any():
        raise AssertionError("the discriminant is negative")
    return call(z, context)
