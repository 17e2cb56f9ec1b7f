"""Defects of bijections, put into healthy subjects: wrong values, wrong log-dets, wrong shapes,
wrong compositions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant, per_point

AFFINE = "nflows:AffineCouplingTransform"
CHAIN = "nflows:CompositeTransform"
ELEMENTWISE = "torch:SigmoidTransform"


def _value_scaled(
    call: Callable[..., Mapped], factor: float, x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(out.value * factor, out.ladj)


def _value_beyond(
    call: Callable[..., Mapped], bound: float, shift: float, x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(np.where(np.abs(out.value) > bound, out.value + shift, out.value), out.ladj)


def _ladj_mapped(
    call: Callable[..., Mapped], change: Callable[..., Any], x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(out.value, change(out.ladj, x))


def _times(factor: float, ladj: Any, x: Array) -> Any:
    return ladj * factor


def _plus(amount: float, ladj: Any, x: Array) -> Any:
    return ladj + amount


def _far_only(bound: float, amount: float, ladj: Any, x: Array) -> Any:
    far = np.abs(x).reshape(len(x), -1).max(1) > bound
    return ladj + amount * far.reshape(-1, *[1] * (np.ndim(ladj) - 1))


def _alone_only(amount: float, ladj: Any, x: Array) -> Any:
    return ladj + amount if len(x) == 1 else ladj


def _batch_sum(ladj: Any, x: Array) -> Any:
    return np.asarray(ladj).sum()


def _column(ladj: Any, x: Array) -> Any:
    return np.asarray(ladj)[:, None]


def _leaking(ladj: Any, x: Array) -> Any:
    return per_point(ladj, len(x)) + 1e-9 * x.reshape(len(x), -1)[:, 0]


def _coupled(ladj: Any, x: Array) -> Any:
    flat = np.tanh(x.reshape(len(x), -1))
    return per_point(ladj, len(x)) + 1e-6 * flat[:, 0] * flat[:, -1]


def _product_log(ladj: Any, x: Array) -> Any:
    with np.errstate(all="ignore"):
        return np.log(np.exp(np.asarray(ladj, dtype=np.float64) - 2.0 * x[0].size))


@mutant("bijection/inverse-roundtrip", host=AFFINE, sizes=(1e-10, 1e-6, 1e-2))
def inverse_scaled(subject: Subject, size: float = 1e-6) -> Subject:
    """The inverse is off by one part in a million."""
    return subject.with_call("inverse", partial(_value_scaled, subject.inverse, 1 + size))


@mutant("bijection/inverse-roundtrip", host=AFFINE, sizes=(1e-9, 1e-4))
def inverse_wrong_beyond_ten(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is wrong only where it returns something beyond 10."""
    return subject.with_call("inverse", partial(_value_beyond, subject.inverse, 10.0, size))


@mutant("bijection/forward-roundtrip", host=AFFINE, sizes=(1e-10, 1e-6))
def forward_scaled(subject: Subject, size: float = 1e-6) -> Subject:
    """Forward is off by one part in a million, and its inverse is not."""
    return subject.with_call("forward", partial(_value_scaled, subject.forward, 1 + size))


@mutant("bijection/log-det", host=AFFINE)
def log_det_sign(subject: Subject, size: float = 1.0) -> Subject:
    """The sign of the log-det is turned (normflows #27)."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, partial(_times, -size))
    )


@mutant("bijection/log-det", host=AFFINE, sizes=(1e-8, 1e-6, 1e-4))
def log_det_relative(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det is off by one part in ten thousand."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, partial(_times, 1 + size))
    )


@mutant("bijection/log-det", host=AFFINE, sizes=(1e-9, 1e-5))
def log_det_beyond_ten(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det is wrong only where a coordinate is beyond 10."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, partial(_far_only, 10.0, size))
    )


@mutant("bijection/log-det", host=AFFINE)
def log_det_single_point(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det is wrong only for a batch of one."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, partial(_alone_only, size))
    )


@mutant("bijection/inverse-log-det", host=AFFINE, sizes=(1e-8, 1e-4))
def inverse_log_det_relative(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det of the inverse is off by one part in ten thousand."""
    return subject.with_call(
        "inverse", partial(_ladj_mapped, subject.inverse, partial(_times, 1 + size))
    )


@mutant("bijection/log-det-antisymmetry", host=AFFINE, sizes=(1e-9, 1e-5))
def inverse_log_det_offset(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det of the inverse carries a spurious constant."""
    return subject.with_call(
        "inverse", partial(_ladj_mapped, subject.inverse, partial(_plus, size))
    )


@mutant("bijection/log-det-shape", host=AFFINE)
def log_det_summed_over_batch(subject: Subject, size: float = 1.0) -> Subject:
    """One log-det for the whole batch (the Julia notes' Exp bijector)."""
    return subject.with_call("forward", partial(_ladj_mapped, subject.forward, _batch_sum))


@mutant("bijection/log-det-shape", host=AFFINE)
def log_det_column(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det keeps a trailing axis of one, and broadcasts against others into a matrix."""
    return subject.with_call("inverse", partial(_ladj_mapped, subject.inverse, _column))


def _blocked(
    jacobian: Callable[..., Array], which: str, x: Array, context: Array | None = None
) -> Array:
    matrix = jacobian(which, x, context)
    if which == "inverse":
        matrix = matrix.copy()
        matrix[:, -1, 0] = 0.0
    return matrix


@mutant("bijection/jacobian-inverse-product", host="nflows:LULinear")
def inverse_detached(subject: Subject, size: float = 1.0) -> Subject:
    """One path through the inverse is detached: the value is right, its derivative is not."""
    return replace(subject, jacobian=partial(_blocked, subject.jacobian))


def _folded(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    return call(np.abs(x), context)


@mutant("bijection/injective", host="torch:AffineTransform")
def folded(subject: Subject, size: float = 1.0) -> Subject:
    """The map folds the line: x and -x have the same image."""
    return subject.with_call("forward", partial(_folded, subject.forward))


def _waved(
    call: Callable[..., Mapped], size: float, x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(out.value - size * np.sin(50 * x) / 10, out.ladj)


@mutant("bijection/monotone", host="torch:SoftplusTransform")
def not_monotone(subject: Subject, size: float = 1.0) -> Subject:
    """The map has a wave in it, as from unsorted spline knots."""
    return subject.with_call("forward", partial(_waved, subject.forward, size))


@mutant("bijection/volume-preserving", host="nflows:Permutation", sizes=(1e-12, 1e-9))
def spurious_volume(subject: Subject, size: float = 1e-9) -> Subject:
    """A permutation reports a log-det."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, partial(_plus, size))
    )


@mutant("bijection/constant-jacobian", host="nflows:LULinear")
def data_dependent_constant(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of a linear map depends on the point."""
    return subject.with_call("forward", partial(_ladj_mapped, subject.forward, _leaking))


@mutant("bijection/log-det-additive", host=ELEMENTWISE)
def coordinates_mixed(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of an elementwise map couples two coordinates."""
    return subject.with_call(
        "forward", partial(_ladj_mapped, subject.forward, _coupled), ladj_event=()
    )


def _called(
    call: Callable[..., Mapped],
    change: Callable[..., Any],
    which: str,
    x: Array,
    *given: Any,
    **named: Any,
) -> Mapped:
    def run(points: Array, *_: Any) -> Mapped:
        return call(which, points, *given, **named)

    return _ladj_mapped(run, change, x)


@mutant("bijection/log-det-wide", host=AFFINE)
def logarithm_of_a_product(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is the logarithm of a determinant, which underflows in many dimensions."""
    return replace(subject, call=partial(_called, subject.call, _product_log))


def _no_slope(*_: Any) -> float:
    return 0.0


@mutant("bijection/log-det-parameter-gradient", host=AFFINE)
def log_det_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is detached from the parameters: training does not see it."""
    return replace(subject, slope=_no_slope)


def _reshaping(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    if x.ndim <= 2:
        return out
    return Mapped(out.value[::-1], out.ladj)


@mutant("bijection/batch-dimensions", host="torch:TanhTransform")
def leading_axis_flipped(subject: Subject, size: float = 1.0) -> Subject:
    """With two batch dimensions the first comes back in reverse."""
    return subject.with_call("forward", partial(_reshaping, subject.forward))


def _last_part_only(subject: Subject, x: Array, context: Array | None = None) -> Mapped:
    out = subject.forward(x, context)
    reached = x
    for part in subject.part_maps:
        last = part(reached, context)
        reached = last.value
    return Mapped(out.value, last.ladj)


@mutant("composition/additive", host=CHAIN)
def overwritten_not_accumulated(subject: Subject, size: float = 1.0) -> Subject:
    """The composite returns the log-det of its last part (tensorflow/models #7465)."""
    return subject.with_call("forward", partial(_last_part_only, subject))


@mutant("composition/inverse-reverses", host=CHAIN)
def inverse_off(subject: Subject, size: float = 1e-6) -> Subject:
    """The inverse of the composite is not that of its parts."""
    return subject.with_call("inverse", partial(_value_scaled, subject.inverse, 1 + size))


def _disarranged(
    subject: Subject,
    kind: str,
    expression: Any,
    x: Array,
    context: Array | None = None,
    which: str = "forward",
) -> Mapped:
    if kind == "reversed" and expression[0] == "chain":
        expression = ("chain", *reversed(expression[1:]))
    if kind == "nested" and expression[0] == "chain" and isinstance(expression[-1], tuple):
        return subject.arrange(("chain", *expression[-1][1:], *expression[1:-1]), x, context, which)
    out = subject.arrange(expression, x, context, which)
    turned = kind == "turned" and out.ladj is not None
    offset = kind == "offset" and out.ladj is not None
    return Mapped(out.value, -out.ladj if turned else out.ladj + 1e-6 if offset else out.ladj)  # type: ignore[operator]


@mutant("composition/in-order", host=CHAIN)
def applied_backwards(subject: Subject, size: float = 1.0) -> Subject:
    """A chain applies its last element first."""
    return replace(subject, arrange=partial(_disarranged, subject, "reversed"))


@mutant("composition/associative", host=CHAIN)
def nested_misplaced(subject: Subject, size: float = 1.0) -> Subject:
    """A chain inside a chain is applied at the wrong place."""
    return replace(subject, arrange=partial(_disarranged, subject, "nested"))


@mutant("composition/double-inverse", host="nflows:LULinear")
def double_inverse_turned(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse of the inverse turns the sign of the log-det."""
    return replace(subject, arrange=partial(_disarranged, subject, "turned"))


@mutant("composition/empty-is-identity", host=CHAIN)
def empty_chain_offset(subject: Subject, size: float = 1.0) -> Subject:
    """The empty chain has a log-det of its own."""
    return replace(subject, arrange=partial(_disarranged, subject, "offset"))


@mutant("composition/single-is-itself", host=CHAIN)
def single_chain_offset(subject: Subject, size: float = 1.0) -> Subject:
    """A chain of one adds to the log-det."""
    return replace(subject, arrange=partial(_disarranged, subject, "offset"))
