"""Operations of JAX in terms of a few elementary ones: comparisons and selections, matrix
products, and entries of an array by index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
from jax import lax

from flowref.backends.jax import behavior

Rule = Callable[[Any], Callable[..., Any]]


def _piecewise_rule(*pieces: Callable[..., tuple[Any, Any, Any]]) -> Rule:
    """A piecewise function by comparisons, whose outcomes are part of a path. ``pieces``:
    functions of the arguments, where the first is replaced by the last selection, that return
    (condition, then, else).
    """

    def rule(equation: Any) -> Callable[..., Any]:
        out = equation.outvars[0].aval

        def run(*given: Any) -> Any:
            for piece in pieces:
                which, *parts = piece(*given)
                yes, no = (stretched_to_shape(one, out.shape, out.dtype) for one in parts)
                given = (
                    lax.select_n(stretched_to_shape(which, out.shape, bool), no, yes),
                    *given[1:],
                )
            return given[0]

        return run

    return rule


def stretched_to_shape(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Broadcasts x to a shape, along axes of size one."""
    if np.shape(x) == shape:
        return x
    return (
        lax.broadcast_in_dim(x, shape, range(len(shape)))
        if np.ndim(x)
        else lax.full(shape, x, dtype)
    )


def _iota_call(equation: Any) -> Callable[..., Any]:
    """Integers, a constant of the program."""
    shape, axis = equation.params["shape"], equation.params["dimension"]
    dtype = equation.outvars[0].aval.dtype
    return lambda: lax.convert_element_type(lax.broadcasted_iota(np.int64, shape, axis), dtype)


def _broadcast(equation: Any) -> Callable[..., Any]:
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    ones = [1] * len(shape)
    for place, size in zip(places, equation.invars[0].aval.shape, strict=True):
        ones[place] = size

    def run(x: Any) -> Any:
        if not np.ndim(x):
            return lax.broadcast(x, shape)
        x = x if np.shape(x) == tuple(ones) else lax.reshape(x, ones)
        return x if tuple(ones) == tuple(shape) else lax.broadcast_in_dim(x, shape, range(x.ndim))

    return run


def _slice(equation: Any) -> Callable[..., Any]:
    params = equation.params
    steps = params["strides"] or [1] * len(params["start_indices"])
    ends = list(zip(params["start_indices"], params["limit_indices"], steps, strict=True))

    def run(x: Any) -> Any:
        for axis, (start, end, step) in enumerate(ends):
            if (start, end, step) != (0, x.shape[axis], 1):
                x = lax.slice_in_dim(x, start, end, step, axis)
        return x

    return run


def _split_rule(equation: Any) -> Callable[..., Any]:
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    ends = np.cumsum([0, *sizes]).tolist()
    return lambda x: [
        lax.slice_in_dim(x, start, start + size, 1, axis)
        for start, size in zip(ends, sizes, strict=False)
    ]


def _stack(equation: Any) -> Callable[..., Any]:
    axis = equation.params["axis"]
    return lambda *given: lax.concatenate([unsqueezed(one, axis) for one in given], axis)


def _dot(equation: Any) -> Callable[..., Any]:
    (left_in, right_in), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right = (variable.aval for variable in equation.invars)
    left_free = [axis for axis in range(left.ndim) if axis not in (*left_in, *left_batch)]
    right_free = [axis for axis in range(right.ndim) if axis not in (*right_in, *right_batch)]
    rows, inner, columns = (
        math.prod(whole.shape[axis] for axis in axes)
        for whole, axes in ((left, left_free), (left, left_in), (right, right_free))
    )
    batch = [math.prod(left.shape[axis] for axis in left_batch)] if left_batch else []
    shape, kind = equation.outvars[0].aval.shape, equation.params["preferred_element_type"]
    first = len(batch)
    numbers = (((first + 1,), (first,)), (tuple(range(first)),) * 2)

    def moved(x: Any, order: Sequence[int], sizes: Sequence[int]) -> Any:
        x = x if list(order) == sorted(order) else lax.transpose(x, order)
        return x if x.shape == tuple(sizes) else lax.reshape(x, sizes)

    def run(x: Any, y: Any) -> Any:
        x = moved(x, (*left_batch, *left_free, *left_in), (*batch, rows, inner))
        y = moved(y, (*right_batch, *right_in, *right_free), (*batch, inner, columns))
        out = lax.dot_general(x, y, numbers, preferred_element_type=kind)
        return out if out.shape == tuple(shape) else lax.reshape(out, shape)

    return run


def unsqueezed(x: Any, axis: int) -> Any:
    """Inserts an axis of size one."""
    shape = np.shape(x)
    return lax.reshape(x, (*shape[:axis], 1, *shape[axis:]))


def entries(x: Any, places: Any) -> Any:
    """Entries of an array, by flat index."""
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    return lax.gather(
        lax.reshape(x, (math.prod(np.shape(x)),)), unsqueezed(places, np.ndim(places)), numbers, (1,),
        mode="promise_in_bounds",
    )  # fmt: skip


def _flat_indices(each: Sequence[Any]) -> Any:
    strides = np.cumprod([1, *each[0].shape[:0:-1]])[::-1]
    return sum(one * stride for one, stride in zip(each, strides, strict=True))


def _moving(equation: Any) -> Callable[..., Any]:
    """An operation that moves entries of arrays, found by applying it to their flat indices."""
    name, kinds = equation.primitive.name, [one.aval.dtype for one in equation.invars]
    bound = behavior.bound(equation)
    if name == "gather" and equation.params["mode"].name == "FILL_OR_DROP":
        bound = _primitive_call(equation, fill_value=-1)

    def run(*given: Any) -> Any:
        arrays = [one for one, kind in zip(given, kinds, strict=True) if kind == kinds[0]]
        ends = np.cumsum([0, *(math.prod(np.shape(one)) for one in arrays)]).tolist()
        numbers = iter(
            np.arange(start, end).reshape(np.shape(one))
            for one, start, end in zip(arrays, ends, ends[1:], strict=False)
        )
        places = bound(
            *(
                next(numbers) if kind == kinds[0] else one
                for one, kind in zip(given, kinds, strict=True)
            )
        )
        whole = [lax.reshape(one, (math.prod(np.shape(one)),)) for one in arrays]
        found = entries(whole[0] if len(whole) == 1 else lax.concatenate(whole, 0), places)
        if name != "gather" or equation.params["mode"].name != "FILL_OR_DROP":
            return found
        nothing = lax.full(found.shape, np.nan, found.dtype)
        return lax.select_n(lax.lt(places, np.zeros((), places.dtype)), found, nothing)

    return run


def _adding(equation: Any) -> Callable[..., Any]:
    """A scatter-add at distinct indices, as a sum."""
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]

    def run(x: Any, places: Any, added: Any) -> Any:
        count = math.prod(np.shape(added))
        each = np.arange(count).reshape(np.shape(added))
        none = np.full(np.shape(x), count)
        apart = equation.params["unique_indices"]
        with (
            nullcontext() if isinstance(places, jax.core.Tracer) else jax.ensure_compile_time_eval()
        ):
            at = lax.scatter(none, places, each, numbers, unique_indices=True, mode=mode)
            if not isinstance(at, jax.core.Tracer):
                at = np.asarray(at)
                apart = set(each.flat) <= set(at.flat)
        if not apart:
            return behavior.bound(equation)(x, places, added)
        flat = lax.concatenate([lax.reshape(added, (count,)), np.zeros(1, added.dtype)], 0)
        return lax.add(x, entries(flat, at))

    return run


def _primitive_call(equation: Any, **params: Any) -> Callable[..., Any]:
    return lambda *given: equation.primitive.bind(*given, **{**equation.params, **params})


def _sort(equation: Any) -> Callable[..., Any]:
    """A sort by the order of the first array, which is part of a path."""
    axis = equation.params["dimension"]

    def run(*given: Any) -> Any:
        shape = given[0].shape
        _, order = lax.sort((given[0], lax.broadcasted_iota(np.int64, shape, axis)), dimension=axis)
        each = [lax.broadcasted_iota(np.int64, shape, other) for other in range(len(shape))]
        each[axis] = order
        return [entries(one, _flat_indices(each)) for one in given]

    return run


def _cumulative_rule(equation: Any) -> Callable[..., Any]:
    axis, back = equation.params["axis"], equation.params["reverse"]
    forward = _primitive_call(equation, reverse=False)
    return lambda x: lax.rev(forward(lax.rev(x, (axis,))), (axis,)) if back else forward(x)


def _triangular(equation: Any) -> Callable[..., Any]:
    params = equation.params
    if not params["transpose_a"]:
        return behavior.bound(equation)
    lower = _primitive_call(equation, transpose_a=False, lower=not params["lower"])
    return lambda a, b: lower(lax.transpose(a, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)), b)


def _factors(equation: Any) -> Callable[..., Any]:
    """An LU elimination without pivoting, of rows in the order of the pivots, which is part of a
    path.
    """
    bound = behavior.bound(equation)

    def run(x: Any) -> Any:
        _, pivots, order = bound(x)
        each = [lax.broadcasted_iota(np.int64, x.shape, axis) for axis in range(x.ndim)]
        rows = lax.convert_element_type(unsqueezed(order, x.ndim - 1), np.int64)
        each[-2] = lax.broadcast_in_dim(rows, x.shape, range(x.ndim))
        return [_eliminated(entries(x, _flat_indices(each))), pivots, order]

    return run


def _eliminated(x: Any) -> Any:
    """L and U in one matrix."""
    row, column = x.ndim - 2, x.ndim - 1
    if 1 in x.shape[row:]:
        first = lax.slice_in_dim(x, 0, 1, axis=row)
        if x.shape[row] == 1:
            return x
        rest = lax.slice_in_dim(x, 1, None, axis=row)
        return lax.concatenate(
            [first, lax.div(rest, stretched_to_shape(first, rest.shape, x.dtype))], row
        )
    top, below = lax.slice_in_dim(x, 0, 1, axis=row), lax.slice_in_dim(x, 1, None, axis=row)
    left, right = (
        lax.slice_in_dim(below, 0, 1, axis=column),
        lax.slice_in_dim(below, 1, None, axis=column),
    )
    pivot = lax.slice_in_dim(top, 0, 1, axis=column)
    factor = lax.div(left, stretched_to_shape(pivot, left.shape, x.dtype))
    across = stretched_to_shape(lax.slice_in_dim(top, 1, None, axis=column), right.shape, x.dtype)
    rest = lax.sub(right, lax.mul(stretched_to_shape(factor, right.shape, x.dtype), across))
    return lax.concatenate([top, lax.concatenate([factor, _eliminated(rest)], column)], row)


MOVING = ("gather", "dynamic_slice", "dynamic_update_slice", "scatter", "pad", "tile")
# Rules for operations with floating results.
RULES: dict[str, Rule] = {
    "max": _piecewise_rule(lambda a, b: (lax.gt_p.bind(a, b), a, b)),
    "min": _piecewise_rule(lambda a, b: (lax.lt_p.bind(a, b), a, b)),
    "abs": _piecewise_rule(lambda x: (lax.lt_p.bind(x, np.float64(0)), lax.neg(x), x)),
    # The lower bound, an array and the upper bound.
    "clamp": _piecewise_rule(
        lambda low, x, high: (lax.lt_p.bind(x, low), low, x),
        lambda y, x, high: (lax.gt_p.bind(y, high), high, y),
    ),
    "erfc": lambda _: lambda x: lax.sub_p.bind(np.float64(1), lax.erf(x)),
    "tan": lambda _: lambda x: lax.div(lax.sin(x), lax.cos(x)),
    "iota": _iota_call,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "split": _split_rule,
    "stack": _stack,
    "dot_general": _dot,
    **dict.fromkeys(MOVING, _moving),
    "scatter-add": _adding,
    "sort": _sort,
    **dict.fromkeys(("cumsum", "cumprod"), _cumulative_rule),
    "triangular_solve": _triangular,
    "lu": _factors,
}
# Operations with rules for booleans too.
ANY = (*MOVING, "broadcast_in_dim", "slice", "split", "stack")
