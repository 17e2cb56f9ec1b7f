"""Defects of squeezes, put into healthy subjects: entries lost, moved or counted twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from flowref.model import ORDERS, Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import declared, value_changed, wrapped

SQUEEZE, UNNAMED = "reference:Squeeze", "nflows:SqueezeTransform"


def _reshaped(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    return Mapped(x.reshape(out.value.shape), out.ladj)


def _cropped(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    rows, columns = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    return call(np.ascontiguousarray(x[:, :, :rows, :columns]), context)


def _first_twice(value: Array) -> Array:
    return np.concatenate([value[:, :1], value[:, :1], value[:, 2:]], axis=1)


def _two_swapped(value: Array) -> Array:
    return np.concatenate([value[:, 1:2], value[:, :1], value[:, 2:]], axis=1)


def _columns_turned(value: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(value, 2, 3))


def _corners_turned(value: Array) -> Array:
    return np.concatenate([value[:, :, ::-1][:, :1], value[:, 1:]], axis=1)


@mutant("squeeze/permutes", host=SQUEEZE)
def first_channel_twice(subject: Subject, size: float = 1.0) -> Subject:
    """A channel is put out twice, and another one lost."""
    return value_changed(subject, "forward", _first_twice)


@mutant("squeeze/permutes", host=UNNAMED, sizes=(1e-6, 1.0))
def entries_moved(subject: Subject, size: float = 1e-6) -> Subject:
    """The entries are off by a little."""
    return value_changed(subject, "forward", partial(np.add, size))


@mutant("squeeze/permutes[windows]", host=SQUEEZE)
def reshaped_only(subject: Subject, size: float = 1.0) -> Subject:
    """The image is reshaped, without moving an axis."""
    return wrapped(subject, "forward", _reshaped)


@mutant("squeeze/permutes[windows]", host=SQUEEZE)
def columns_for_rows(subject: Subject, size: float = 1.0) -> Subject:
    """Every window stays one, and goes to the position mirrored at the diagonal."""
    return value_changed(subject, "forward", _columns_turned)


@mutant("squeeze/permutes[windows]", host=SQUEEZE)
def one_corner_elsewhere(subject: Subject, size: float = 1.0) -> Subject:
    """One corner comes from the window at the other end."""
    return value_changed(subject, "forward", _corners_turned)


@mutant("squeeze/order[declared]", host=SQUEEZE)
def two_corners_swapped(subject: Subject, size: float = 1.0) -> Subject:
    """Two corners of the first channel are swapped."""
    return value_changed(subject, "forward", _two_swapped)


@mutant("squeeze/order[declared]", host="reference:Squeeze[space_to_depth]")
def weights_of_another_order(subject: Subject, size: float = 1.0) -> Subject:
    """The documentation tells another order that is in use."""
    squeezing = declared(subject.squeezing)
    other = next(order for order in ORDERS if order != squeezing.order)
    return subject.with_facts(squeezing=replace(squeezing, order=other))


@mutant("squeeze/order[known]", host=UNNAMED)
def order_without_name(subject: Subject, size: float = 1.0) -> Subject:
    """Two corners of the first channel only are swapped."""
    return value_changed(subject, "forward", _two_swapped)


@mutant("shape/wrong-refused[image-size]", host=UNNAMED)
def odd_row_dropped(subject: Subject, size: float = 1.0) -> Subject:
    """The last row or column of an odd image is dropped in silence."""
    return wrapped(subject, "forward", _cropped)
