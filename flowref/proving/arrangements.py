"""Rearrangements of arrays, for every kind of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from flowref.proving.numbers import NotModelled, Numbers, concatenate_numbers, lifted


def axes_of(dim: Any, axes: int) -> tuple[int, ...]:
    """The axes of an operator's argument, all of them for None or an empty sequence."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(axes))
    return tuple(one % axes for one in ((dim,) if isinstance(dim, int) else dim))


def view(x: Any, shape: Sequence[int]) -> Any:
    """Reshapes an array."""
    if isinstance(x, np.ndarray):
        return x.reshape(shape)
    if -1 in shape:
        known = math.prod(size for size in shape if size != -1)
        shape = [math.prod(x.shape) // known if size == -1 else size for size in shape]
    return x.reshaped(lambda part, lead: part.reshape((*part.shape[:lead], *shape)))


def permute(x: Any, dims: Sequence[int]) -> Any:
    """Transposes axes into another order."""
    if isinstance(x, np.ndarray):
        return x.transpose(dims)
    dims = [dim % x.axes for dim in dims]
    return x.reshaped(
        lambda part, lead: part.transpose(*range(lead), *(lead + dim for dim in dims))
    )


def transpose(x: Any, one: int, other: int) -> Any:
    """Exchanges two axes."""
    axes = x.ndim if isinstance(x, np.ndarray) else x.axes
    dims = list(range(axes))
    dims[one], dims[other] = dims[other], dims[one]
    return permute(x, dims)


def unsqueeze(x: Any, dim: int) -> Any:
    """Inserts an axis of size one."""
    if isinstance(x, np.ndarray):
        return np.expand_dims(x, dim)
    dim = dim % (x.axes + 1)
    return x.reshaped(lambda part, lead: np.expand_dims(part, lead + dim))


def squeeze(x: Any, dim: Any = None) -> Any:
    """Removes axes of size one."""
    shape = x.shape
    taken = range(len(shape)) if dim is None else axes_of(dim, len(shape))
    kept = [size for axis, size in enumerate(shape) if size != 1 or axis not in taken]
    return view(x, kept)


def expand(x: Any, sizes: Sequence[int], implicit: bool = False) -> Any:
    """Broadcasts to ``sizes``, where -1 keeps a size."""
    more = len(sizes) - len(x.shape)
    full = [x.shape[at - more] if size == -1 else size for at, size in enumerate(sizes)]
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, full)
    return x.reshaped(
        lambda part, lead: np.broadcast_to(
            part.reshape(*part.shape[:lead], *(1,) * more, *part.shape[lead:]),
            (*part.shape[:lead], *full),
        )
    )


def indexed_entries(x: Any, place: tuple[Any, ...]) -> Any:
    """Entries by an index of numpy."""
    if isinstance(x, np.ndarray):
        return x[place]
    # For an index with several separated arrays numpy moves their axes to the front, even before
    # batch axes.
    flat = np.arange(math.prod(x.shape)).reshape(x.shape)[place]
    return x.reshaped(lambda part, lead: part.reshape(*part.shape[:lead], -1)[..., flat])


def slice_along_axis(
    x: Any, dim: int, start: int | None = 0, end: int | None = None, step: int = 1
) -> Any:
    """A slice along an axis."""
    dim = dim % len(x.shape)
    return indexed_entries(x, (slice(None),) * dim + (slice(start, end, step),))


def select(x: Any, dim: int, index: int) -> Any:
    """One index along an axis."""
    return indexed_entries(x, (slice(None),) * (dim % len(x.shape)) + (index,))


def index(x: Any, indices: Sequence[Any]) -> Any:
    """Entries at constant indices; raises `NotModelled` for others."""
    if any(isinstance(one, Numbers) for one in indices):
        raise NotModelled("indices that depend on undecided numbers")
    return indexed_entries(
        x, tuple(slice(None) if one is None else np.asarray(one) for one in indices)
    )


def gather(x: Any, dim: int, places: Any) -> Any:
    """Entries at constant indices along an axis; raises `NotModelled` for others."""
    if isinstance(places, Numbers):
        raise NotModelled("indices that depend on undecided numbers")
    return indexed_entries(view(x, [math.prod(x.shape)]), (_along(x, dim, places),))


def _along(x: Any, dim: int, places: Any) -> Any:
    """Flat indices of entries at indices along an axis."""
    ends = [None if axis == dim % len(x.shape) else n for axis, n in enumerate(places.shape)]
    flat = np.arange(math.prod(x.shape)).reshape(x.shape)[tuple(map(slice, ends))]
    return np.take_along_axis(flat, places.astype(int), dim)


def scatter(x: Any, dim: int, places: Any, values: Any) -> Any:
    """The array with entries at indices along an axis replaced."""
    flat, part = _scattered(x, dim, places, values)
    return view(_put(view(x, [math.prod(x.shape)]), part, (flat,)), x.shape)


def scatter_add(x: Any, dim: int, places: Any, values: Any) -> Any:
    """The array with numbers added at indices along an axis."""
    flat, part = _scattered(x, dim, places, values)
    return view(add_at_places(view(x, [math.prod(x.shape)]), part, flat), x.shape)


def _scattered(x: Any, dim: int, places: Any, values: Any) -> tuple[Any, Any]:
    if isinstance(places, Numbers):
        raise NotModelled("indices that depend on undecided numbers")
    flat = _along(x, dim, places).ravel()
    if not isinstance(values, Numbers | np.ndarray):
        return flat, np.full(len(flat), values)
    part = indexed_entries(values, tuple(slice(0, n) for n in places.shape))
    return flat, view(part, [len(flat)])


def cat(parts: Sequence[Any], dim: int = 0) -> Any:
    """Concatenates arrays along an axis."""
    numbers = [part for part in parts if not (len(part.shape) == 1 and part.shape[0] == 0)]
    like = next((one for one in numbers if isinstance(one, Numbers)), None)
    if like is None:
        return np.concatenate(numbers, dim)
    return concatenate_numbers([lifted(one, like) for one in numbers], dim)


def stack(parts: Sequence[Any], dim: int = 0) -> Any:
    """Stacks arrays along a new axis."""
    return cat([unsqueeze(part, dim % (len(part.shape) + 1)) for part in parts], dim)


def split_with_sizes(x: Any, sizes: Sequence[int], dim: int = 0) -> list[Any]:
    """Splits an array along an axis into parts of these sizes."""
    ends = np.cumsum([0, *sizes])
    return [slice_along_axis(x, dim, int(start), int(end)) for start, end in pairwise(ends)]


def split(x: Any, size: int, dim: int = 0) -> list[Any]:
    """Splits an array along an axis into parts of one size."""
    count = x.shape[dim]
    return split_with_sizes(x, [min(size, count - at) for at in range(0, count, size)], dim)


def flip(x: Any, dims: Sequence[int]) -> Any:
    """Reverses axes."""
    return indexed_entries(
        x,
        tuple(
            slice(None, None, -1 if axis in axes_of(dims, len(x.shape)) else 1)
            for axis in range(len(x.shape))
        ),
    )


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis."""
    flat = np.diagonal(np.arange(math.prod(x.shape)).reshape(x.shape), offset, dim1, dim2)
    return indexed_entries(view(x, [math.prod(x.shape)]), (flat,))


def full(sizes: Sequence[int], value: Any) -> Any:
    """An array of one number."""
    return np.full(sizes, value)


def _put(x: Any, y: Any, place: tuple[Any, ...]) -> Any:
    """The array with the entries of an index replaced."""
    if not isinstance(x, Numbers) and not isinstance(y, Numbers):
        found = np.array(x)
        found[place] = y
        return found
    like = x if isinstance(x, Numbers) else y
    whole, part = lifted(x, like), lifted(y, like)
    count = math.prod(whole.shape)
    flat = np.arange(count).reshape(whole.shape)
    flat[place] = count + np.arange(math.prod(part.shape)).reshape(part.shape)
    return indexed_entries(
        concatenate_numbers([view(whole, [count]), view(part, [math.prod(part.shape)])], 0), (flat,)
    )


def slice_scatter(
    x: Any, y: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """The array with a slice along an axis replaced."""
    return _put(x, y, (slice(None),) * (dim % len(x.shape)) + (slice(start, end, step),))


def select_scatter(x: Any, y: Any, dim: int, at: int) -> Any:
    """The array with one index along an axis replaced."""
    return _put(x, y, (slice(None),) * (dim % len(x.shape)) + (at,))


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """The array with entries at constant indices replaced, or added to; raises `NotModelled` for
    others.
    """
    if any(isinstance(one, Numbers) for one in indices):
        raise NotModelled("indices that depend on undecided numbers")
    place = tuple(slice(None) if one is None else np.asarray(one) for one in indices)
    like = x if isinstance(x, Numbers) else values
    whole, count = lifted(x, like), math.prod(x.shape)
    flat = np.arange(count).reshape(x.shape)[place]
    part = expand(lifted(values, like), flat.shape)
    if not accumulate:
        return _put(whole, part, place)
    return view(add_at_places(view(whole, [count]), view(part, [flat.size]), flat.ravel()), x.shape)


def add_at_places(x: Any, y: Any, places: Any) -> Any:
    """The array with numbers added at flat indices, which may repeat."""
    x, y = (lifted(x, y), y) if isinstance(y, Numbers) else (x, lifted(y, x))
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], places[order])
    turns = np.empty(len(places), int)
    turns[order] = np.arange(len(places)) - first
    for turn in range(int(turns.max(initial=-1)) + 1):
        now = turns == turn
        x = x + _put(np.zeros(x.shape), indexed_entries(y, (now,)), (places[now],))
    return x


def constant_pad_nd(x: Any, pads: Sequence[int], value: Any = 0) -> Any:
    """Pads with a constant; negative pads remove entries."""
    for place, axis in enumerate(reversed(range(len(x.shape) - len(pads) // 2, len(x.shape)))):
        before, after = pads[2 * place : 2 * place + 2]
        if before < 0 or after < 0:
            x = slice_along_axis(x, axis, -min(before, 0), x.shape[axis] + min(after, 0))
        sides = [[*x.shape[:axis], max(side, 0), *x.shape[axis + 1 :]] for side in (before, after)]
        x = cat([full(sides[0], float(value)), x, full(sides[1], float(value))], axis)
    return x


def tiled(x: Any, sizes: Sequence[int]) -> Any:
    """Repeats the array along each axis."""
    flat = np.tile(np.arange(math.prod(x.shape)).reshape(x.shape), sizes)
    return indexed_entries(view(x, [math.prod(x.shape)]), (flat,))
