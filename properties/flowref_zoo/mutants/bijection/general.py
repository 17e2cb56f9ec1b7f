"""Defects of bijections, put into healthy subjects: wrong values, wrong log-dets, wrong shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant, per_point
from flowref.model.steps import Learn, Run
from flowref_zoo.mutants.combinators import (
    Asked,
    after,
    answered,
    ladj_added,
    ladj_changed,
    ladj_multiplied,
    multiplied,
    value_changed,
    wrapped,
)

AFFINE = "nflows:AffineCouplingTransform"
ELEMENTWISE = "torch:SigmoidTransform"


def _far(bound: float, size: float, value: Array) -> Array:
    return np.where(np.abs(value) > bound, value + size, value)


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


@mutant("map/inverse", host=AFFINE, sizes=(1e-10, 1e-6, 1e-2))
def inverse_scaled(subject: Subject, size: float = 1e-6) -> Subject:
    """The inverse is off by one part in a million."""
    return multiplied(subject, "inverse", 1 + size)


@mutant("map/inverse", host=AFFINE, sizes=(1e-9, 1e-4))
def inverse_wrong_beyond_ten(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is wrong only where it returns something beyond 10."""
    return value_changed(subject, "inverse", partial(_far, 10.0, size))


@mutant("map/inverse[latents]", host=AFFINE, sizes=(1e-10, 1e-6))
def forward_scaled(subject: Subject, size: float = 1e-6) -> Subject:
    """Forward is off by one part in a million, and its inverse is not."""
    return multiplied(subject, "forward", 1 + size)


@mutant("map/log-det", host=AFFINE)
def log_det_sign(subject: Subject, size: float = 1.0) -> Subject:
    """The sign of the log-det is turned (normflows #27)."""
    return ladj_multiplied(subject, "forward", -size)


@mutant("map/log-det", host=AFFINE, sizes=(1e-8, 1e-6, 1e-4))
def log_det_relative(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det is off by one part in ten thousand."""
    return ladj_multiplied(subject, "forward", 1 + size)


@mutant("map/log-det", host=AFFINE, sizes=(1e-9, 1e-5))
def log_det_beyond_ten(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det is wrong only where a coordinate is beyond 10."""
    return ladj_changed(subject, "forward", partial(_far_only, 10.0, size))


@mutant("map/log-det", host=AFFINE)
def log_det_single_point(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det is wrong only for a batch of one."""
    return ladj_changed(subject, "forward", partial(_alone_only, size))


@mutant("map/log-det[inverse]", host=AFFINE, sizes=(1e-8, 1e-4))
def inverse_log_det_relative(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det of the inverse is off by one part in ten thousand."""
    return ladj_multiplied(subject, "inverse", 1 + size)


@mutant("map/log-det[antisymmetry]", host=AFFINE, sizes=(1e-9, 1e-5))
def inverse_log_det_offset(subject: Subject, size: float = 1e-5) -> Subject:
    """The log-det of the inverse carries a spurious constant."""
    return ladj_added(subject, "inverse", size)


@mutant("shape/one-number-per-point[log-det]", host=AFFINE)
def log_det_summed_over_batch(subject: Subject, size: float = 1.0) -> Subject:
    """One log-det for the whole batch (the Julia notes' Exp bijector)."""
    return ladj_changed(subject, "forward", _batch_sum)


@mutant("shape/one-number-per-point[log-det]", host=AFFINE)
def log_det_column(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det keeps a trailing axis of one, and broadcasts against others into a matrix."""
    return ladj_changed(subject, "inverse", _column)


def _squeezed(ladj: Array, x: Array) -> Array:
    return np.squeeze(ladj)


@mutant("shape/one-number-per-point[log-det]", host=AFFINE)
def log_det_squeezed(subject: Subject, size: float = 1.0) -> Subject:
    """Squeezing drops the axis of a batch of one."""
    return ladj_changed(subject, "forward", _squeezed)


def _summed(out: Mapped) -> Mapped:
    return out if out.ladj is None else Mapped(out.value, float(np.sum(out.ladj)))


def _summed_in_training(out: Mapped, asked: Asked) -> Mapped:
    return _summed(out) if asked.manner.how == "train" else out


@mutant("shape/one-number-per-point[log-det]", host=AFFINE)
def log_det_summed_in_training(subject: Subject, size: float = 1.0) -> Subject:
    """In train mode the log-det is one number for the whole batch."""
    return answered(subject, _summed_in_training)


@mutant("shape/one-number-per-point[log-det]", host=AFFINE)
def log_det_summed_after_training(subject: Subject, size: float = 1.0) -> Subject:
    """A log-det that is 0 in the batch shape as built is a sum over the batch once it is trained."""
    return after(subject, Learn, Run, _summed)


@mutant("shape/one-number-per-point[one-feature]", host="zuko:NSF")
def log_det_without_an_axis(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of one feature has lost the batch axis with that of the feature."""
    return ladj_changed(subject, "forward", _batch_sum)


def _blocked(
    jacobian: Callable[..., Array], which: str, x: Array, context: Array | None = None
) -> Array:
    matrix = jacobian(which, x, context)
    if which == "inverse":
        matrix = matrix.copy()
        matrix[:, -1, 0] = 0.0
    return matrix


@mutant("map/inverse-jacobian", host="nflows:LULinear")
def inverse_detached(subject: Subject, size: float = 1.0) -> Subject:
    """One path through the inverse is detached: the value is right, its derivative is not."""
    return wrapped(subject, "jacobian", _blocked)


def _folded(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    return call(np.abs(x), context)


@mutant("map/one-to-one", host="torch:AffineTransform")
def folded(subject: Subject, size: float = 1.0) -> Subject:
    """The map folds the line: x and -x have the same image."""
    return wrapped(subject, "forward", _folded)


def _waved(
    call: Callable[..., Mapped], size: float, x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(out.value - size * np.sin(50 * x) / 10, out.ladj)


@mutant("map/promised-jacobian[monotone]", host="torch:SoftplusTransform")
def not_monotone(subject: Subject, size: float = 1.0) -> Subject:
    """The map has a wave in it, as from unsorted spline knots."""
    return wrapped(subject, "forward", _waved, size)


@mutant("map/promised-jacobian[volume]", host="nflows:Permutation", sizes=(1e-12, 1e-9))
def spurious_volume(subject: Subject, size: float = 1e-9) -> Subject:
    """A permutation reports a log-det."""
    return ladj_added(subject, "forward", size)


@mutant("map/promised-jacobian[constant]", host="nflows:LULinear")
def data_dependent_constant(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of a linear map depends on the point."""
    return ladj_changed(subject, "forward", _leaking)


@mutant("map/log-det", host=ELEMENTWISE)
def coordinates_mixed(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of an elementwise map couples two coordinates."""
    return ladj_changed(subject, "forward", _coupled).with_facts(ladj_event=())


def _underflowing(out: Mapped, asked: Asked) -> Mapped:
    return Mapped(out.value, _product_log(out.ladj, asked.inputs[0]))


@mutant("map/finite[wide]", host=AFFINE)
def logarithm_of_a_product(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is the logarithm of a determinant, which underflows in many dimensions."""
    return answered(subject, _underflowing)


def _no_slope(*_: Any) -> float:
    return 0.0


@mutant("gradient/parameters[log-det]", host=AFFINE)
def log_det_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is detached from the parameters: training does not see it."""
    return replace(subject, slope=_no_slope)


def _reshaping(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    if x.ndim <= 2:
        return out
    return Mapped(out.value[::-1], out.ladj)


@mutant("shape/any-batch[batch-axes]", host="torch:TanhTransform")
def leading_axis_flipped(subject: Subject, size: float = 1.0) -> Subject:
    """With two batch dimensions the first comes back in reverse."""
    return wrapped(subject, "forward", _reshaping)


@mutant(
    "map/log-det[differences]",
    host="flowref_zoo.specimens.arrays:calibrated",
    sizes=(1e-4, 1e-2),
)
def log_det_off_in_arrays(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det of a map that is computed in numpy is off."""
    return ladj_added(subject, "forward", size)
