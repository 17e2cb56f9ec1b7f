"""Gathers and scatters of jaxprs in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# The name of the mode that drops indices outside of an array.
DROPS = "FILL_OR_DROP"


def gathered(equation: Any) -> Callable[..., Any]:
    """`lax.gather`: windows of an array, whose origins are rows of indices."""
    params = equation.params
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    shape = equation.invars[0].aval.shape
    ones = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = [axis for axis in range(len(shape)) if axis not in ones]
    drops = params["mode"].name == DROPS
    fill = _fill_value(equation) if drops else None
    out = len(equation.outvars[0].aval.shape)
    offsets = [int(axis) for axis in numbers.offset_dims]
    order = offsets_last(out, offsets)

    def run(operand: Any, indices: Any) -> Any:
        places, inside = _window_indices(
            shape,
            indices,
            sizes,
            windows,
            numbers.start_index_map,
            numbers.operand_batching_dims,
            numbers.start_indices_batching_dims,
        )
        found = operand[places]
        if drops and not inside.all():
            found = np.where(inside.reshape(inside.shape + (1,) * len(windows)), found, fill)
        return np.transpose(found, np.argsort(order))

    return run


def scattered(update: Callable[..., None]) -> Callable[[Any], Callable[..., Any] | None]:
    """`lax.scatter` and its variants: windows of updates, written into an array or added to it."""

    def prepare(equation: Any) -> Callable[..., Any] | None:
        params = equation.params
        numbers = params["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        ones = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        windows = [axis for axis in range(len(shape)) if axis not in ones]
        given = equation.invars[2].aval.shape
        update_windows = [int(axis) for axis in numbers.update_window_dims]
        sizes = [1] * len(shape)
        for axis, place in zip(windows, update_windows, strict=True):
            sizes[axis] = given[place]
        drops = params["mode"].name == DROPS
        order = offsets_last(len(given), update_windows)

        def run(operand: Any, indices: Any, updates: Any) -> Any:
            made = np.array(operand)
            places, inside = _window_indices(
                shape,
                indices,
                sizes,
                windows,
                numbers.scatter_dims_to_operand_dims,
                numbers.operand_batching_dims,
                numbers.scatter_indices_batching_dims,
            )
            new = np.transpose(updates, order)
            if drops and not inside.all():
                kept = np.broadcast_to(
                    inside.reshape(inside.shape + (1,) * len(windows)), new.shape
                )
                places = tuple(np.broadcast_to(one, new.shape)[kept] for one in places)
                new = new[kept]
            update(made, places, new)
            return made

        return run

    return prepare


def replace_in_place(made: Any, places: Any, new: Any) -> None:
    """Replaces entries; for repeated indices the last value stays."""
    made[places] = new


def add_in_place(made: Any, places: Any, new: Any) -> None:
    """Adds to entries; repeated indices accumulate."""
    np.add.at(made, places, new)


def offsets_last(size: int, offsets: Sequence[int]) -> list[int]:
    """The order of axes in which those of windows come last."""
    return [axis for axis in range(size) if axis not in offsets] + list(offsets)


def _window_indices(
    shape: Sequence[int],
    indices: Any,
    sizes: Sequence[int],
    windows: Sequence[int],
    mapped: Sequence[int],
    batched: Sequence[int],
    index_batched: Sequence[int],
) -> tuple[tuple[Any, ...], Any]:
    """For each axis of an array, the indices of all entries of all windows, and a mask of the
    windows inside the array; those outside are moved into it.
    """
    rows = indices.shape[:-1]
    inside = np.ones(rows, bool)
    starts: list[Any] = [np.zeros((1,) * len(rows), np.int64)] * len(shape)
    for number, axis in enumerate(mapped):
        start, last = indices[..., number].astype(np.int64), shape[axis] - sizes[axis]
        inside &= (start >= 0) & (start <= last)
        starts[axis] = np.clip(start, 0, last)
    for axis, place in zip(batched, index_batched, strict=True):
        ones = [1] * len(rows)
        ones[place] = rows[place]
        starts[axis] = np.arange(rows[place]).reshape(ones)
    places = []
    for axis, start in enumerate(starts):
        ones = [1] * len(windows)
        within: Any = 0
        if axis in windows:
            ones[windows.index(axis)] = sizes[axis]
            within = np.arange(sizes[axis]).reshape(ones)
        places.append(start.reshape(start.shape + (1,) * len(windows)) + within)
    return tuple(places), inside


def _fill_value(equation: Any) -> Any:
    value, dtype = equation.params["fill_value"], np.dtype(equation.outvars[0].aval.dtype)
    if value is not None:
        return np.asarray(value, dtype)
    if dtype.kind in "fc":
        return np.asarray(np.nan, dtype)
    if dtype.kind == "b":
        return np.asarray(True)
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if dtype.kind == "i" else limits.max, dtype)
