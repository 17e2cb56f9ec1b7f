"""The operators of traced graphs on intervals: a table by the operators' names in ATen.

A floating array is `Intervals`; so is an array of integers or booleans that depends on points, with
each between two integers; an array that depends on no point is one of numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.proving import arrangements as arranged
from flowref.proving.arrangements import (
    axes_of,
    indexed_entries,
    select,
    slice_along_axis,
    transpose,
    unsqueeze,
)
from flowref.proving.exact.arithmetic import merged_axes, running_reduction, triangle
from flowref.proving.exact.matrices import convolution
from flowref.proving.exact.operators import ARRANGEMENTS, ENTRIES, numeric
from flowref.proving.numbers import (
    NotModelled,
    add,
    aligned,
    concatenate_numbers,
    div,
    lifted,
    mul,
    operands,
)
from flowref.proving.rounding import enclosures as of
from flowref.proving.rounding.determinants import log_det_bounds
from flowref.proving.rounding.enclosures import INCREASING
from flowref.proving.rounding.intervals import FUNCTION, Intervals

both: Callable[[Any, Any], tuple[Intervals, Intervals]] = operands
# The most values of an index in one box, over which the hull is taken; the largest integer power
# computed as such.
PLACES, HIGHEST = 256, 64


class Undecided(NotModelled):
    """An index that is not constant on a box: it may be on a part of it."""


def power(a: Any, exponent: Any) -> Intervals:
    """a to a power: integers, halves, or else of positive numbers."""
    if isinstance(exponent, int | float):
        if exponent == 0:
            return lifted(np.ones(a.shape), a)  # type: ignore[no-any-return]  # of intervals
        if exponent % 1 == 0 and abs(exponent) <= HIGHEST:
            found: Intervals = a.whole_power(abs(int(exponent)))
            return found if exponent > 0 else found.reciprocal()
        if abs(exponent) == 0.5:
            return a.sqrt() if exponent > 0 else a.sqrt().reciprocal()  # type: ignore[no-any-return]
    base, raised = aligned(*both(a, exponent))
    log = INCREASING["log"].ends(base.ends, FUNCTION)
    ends = INCREASING["exp"].ends(of.times(raised.ends, log), FUNCTION)
    values = base.made(ends, 0.0)
    by_base, by_exponent = (
        of.times(values.ends, of.times(raised.ends, of.reciprocal(base.ends))),
        of.times(values.ends, log),
    )
    err = of.magnitude(by_base) * base.err + of.magnitude(by_exponent) * raised.err
    d = of.optional_sum(base.scaled(by_base), raised.scaled(by_exponent))
    return base.made(values.ends, err + values.rounded(FUNCTION), d)


def sine_or_cosine(
    x: Intervals, function: Callable[[Any], Any], slope: Callable[[Any], Any]
) -> Intervals:
    """A sine or a cosine: its value at the middle of each interval, plus or minus the radius."""

    def ends(one: Callable[[Any], Any]) -> of.Ends:
        middle = x.low / 2 + x.high / 2
        width = of.up(of.up(np.maximum(middle - x.low, x.high - middle)))
        found = one(middle)
        return (
            of.down(np.maximum(found - width, -1) - 1e-15),
            of.up(np.minimum(found + width, 1) + 1e-15),
        )

    return x.mapped(ends(function), ends(slope))


def absolute(x: Intervals) -> Intervals:
    """|x|."""
    found: Intervals = where(gt(x, 0), x, -x)
    return replace(found, ends=(of.smallest(x.ends), x.size)).finite()


def sign(x: Intervals) -> Intervals:
    """One, zero or minus one."""
    return stepped(np.sign)(x)  # type: ignore[no-any-return]  # of intervals


def gt(a: Any, b: Any) -> Intervals:
    """Bounds of the bit a > b."""
    one, other = aligned(*both(a, b))
    return one.certain(one.low > other.high, one.high > other.low)


def ge(a: Any, b: Any) -> Intervals:
    """Bounds of the bit a >= b."""
    one, other = aligned(*both(a, b))
    return one.certain(one.low >= other.high, one.high >= other.low)


def eq(a: Any, b: Any) -> Intervals:
    """Bounds of the bit a = b."""
    one, other = aligned(*both(a, b))
    same = (one.low == one.high) & (other.low == other.high) & (one.low == other.low)
    return one.certain(same, (one.low <= other.high) & (other.low <= one.high))


def logical_not(a: Any) -> Any:
    """1 - a."""
    return ~a if isinstance(a, np.ndarray) else a.certain(1 - a.high, 1 - a.low)


def logical_and(a: Any, b: Any) -> Intervals:
    """ab."""
    one, other = aligned(*both(a, b))
    return one.certain(np.minimum(one.low, other.low), np.minimum(one.high, other.high))


def logical_or(a: Any, b: Any) -> Intervals:
    """a + b - ab."""
    one, other = aligned(*both(a, b))
    return one.certain(np.maximum(one.low, other.low), np.maximum(one.high, other.high))


def where(bit: Any, a: Any, b: Any) -> Any:
    """a where a bit is one and b where it is zero."""
    if not any(isinstance(one, Intervals) for one in (bit, a, b)):
        return np.where(bit, a, b)
    like = next(one for one in (bit, a, b) if isinstance(one, Intervals))
    return lifted(a, like).chosen(lifted(b, like), lifted(bit, like))


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """x limited to an interval."""
    if low is not None:
        x = where(gt(low, x), low, x)
    return x if high is None else where(gt(x, high), high, x)


def stepped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An increasing function with integer values."""

    def run(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return function(x)
        found = x.certain(function(x.low), function(x.high))
        found = replace(found, err=np.where(x.bounded, 0.0, np.inf), whole=bool(x.bounded.all()))
        return found.finite()

    return run


def remainder(a: Any, b: Any) -> Intervals:
    """The remainder of integers by a positive constant."""
    one, other = aligned(*both(a, b))
    if not (
        one.whole and other.whole and (other.low == other.high).all() and (other.low > 0).all()
    ):
        raise NotModelled("a remainder of numbers that are not integers")
    n = other.low
    same = np.floor(one.low / n) == np.floor(one.high / n)
    return one.certain(np.where(same, one.low % n, 0), np.where(same, one.high % n, n - 1))


def _restore_reduced_axes(x: Intervals, axes: tuple[int, ...], keepdim: bool) -> Intervals:
    for axis in sorted(axes) if keepdim else ():
        x = unsqueeze(x, axis)
    return x


def sum_of_intervals(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum along axes, in any order."""
    if isinstance(x, np.ndarray):
        axes = axes_of(dim, x.ndim)
        return x.sum(axes, keepdims=keepdim)
    merged, axes = merged_axes(x, dim)
    if merged.whole:
        return _restore_reduced_axes(
            merged.certain(merged.low.sum(-1), merged.high.sum(-1)), axes, keepdim
        )
    terms = (~merged.nothing).sum(-1)
    err = merged.err.sum(-1) + of.gamma(terms - 1) * merged.size.sum(-1)
    d = None if merged.d is None else of.sum_of_ends(merged.d)
    return _restore_reduced_axes(
        merged.made(of.sum_of_ends(merged.ends), err * (1 + of.gamma(4 * terms)), d), axes, keepdim
    )


def mean(x: Intervals, dim: Any = None, keepdim: bool = False) -> Intervals:
    """The mean along axes."""
    found: Intervals = div(
        sum_of_intervals(x, dim, keepdim), math.prod(x.shape[axis] for axis in axes_of(dim, x.axes))
    )
    return found


def running_sum(x: Any, dim: int) -> Intervals:
    """The cumulative sum along an axis."""
    parts = [
        sum_of_intervals(slice_along_axis(x, dim, 0, at + 1), dim, True)
        for at in range(x.shape[dim])
    ]
    found: Intervals = concatenate_numbers(parts, dim)
    return found


def prod(x: Intervals, dim: Any = None, keepdim: bool = False) -> Intervals:
    """The product along axes."""
    merged, axes = merged_axes(x, dim)
    found: Intervals = select(merged, -1, 0)
    for at in range(1, merged.shape[-1]):
        found = found * select(merged, -1, at)
    return _restore_reduced_axes(found, axes, keepdim)


def amax(x: Intervals, dim: Any = (), keepdim: bool = False) -> Intervals:
    """The maximum along axes."""
    merged, axes = merged_axes(x, dim)
    ends = merged.low.max(-1), merged.high.max(-1)
    d = None
    if merged.d is not None:
        # The slopes of entries that may be the largest.
        may = (merged.high >= ends[0][..., None])[:, None]
        low, high = (
            np.broadcast_to(one, np.broadcast_shapes(one.shape, may.shape)) for one in merged.d
        )
        d = np.where(may, low, np.inf).min(-1), np.where(may, high, -np.inf).max(-1)
    found = replace(merged.made(ends, merged.err.max(-1), d), whole=merged.whole)
    return _restore_reduced_axes(found, axes, keepdim)


def matmul(a: Any, b: Any) -> Intervals:
    """Matrix products, with one batch axis or none; sums in any order."""
    one, other = both(a, b)
    inner = one.shape[-1]
    size, off = of.gamma(inner + 1), 1 + of.gamma(4 * inner + 16)
    rounding = size * (one.size @ other.size)
    err = (one.size @ other.err + one.err @ other.size + rounding) * off
    ends = of.product(one.ends, other.ends)
    ends = ends[0] - 2 * rounding, ends[1] + 2 * rounding
    along = [one.d and of.product(one.d, (other.low[:, None], other.high[:, None]))]
    along.append(other.d and of.product((one.low[:, None], one.high[:, None]), other.d))
    return one.made(ends, err, of.optional_sum(*along))


def addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Intervals:
    """beta c + alpha ab, where c may be added first."""
    found = matmul(a, b)
    found = found if alpha == 1 else mul(found, alpha)
    more = lifted(c if beta == 1 else mul(c, beta), found)
    slack = of.gamma(both(a, b)[0].shape[-1] + 1) * more.size
    ends = more.low - 2 * slack, more.high + 2 * slack
    return replace(more, ends=ends, err=more.err + slack).finite() + found


def gather(x: Any, dim: int, places: Any) -> Any:
    """Entries at indices along an axis: the hull over all indices that a box allows."""
    if not isinstance(places, Intervals):
        return arranged.gather(x, dim, places)
    low, high = places.low.astype(int), places.high.astype(int)
    if (wide := int((high - low).max(initial=0))) > PLACES:
        raise Undecided("a place that is not decided")
    array, dim = lifted(x, places), dim % len(x.shape)
    keep = tuple(slice(0, n) if axis != dim else slice(None) for axis, n in enumerate(places.shape))
    array = indexed_entries(array, keep)
    most = array.shape[dim] - 1

    def at(step: int) -> Intervals:
        index = np.clip(np.minimum(low + step, high), 0, most)

        def change(part: Any, lead: int) -> Any:
            wanted = index if lead == 1 else index[:, None]
            front = np.broadcast_shapes(part.shape[:lead], wanted.shape[:lead])
            wide_part = np.broadcast_to(part, (*front, *part.shape[lead:]))
            wide_index = np.broadcast_to(wanted, (*front, *wanted.shape[lead:]))
            return np.take_along_axis(wide_part, wide_index, lead + dim)

        found: Intervals = array.reshaped(change)
        return found

    found = at(0)
    for step in range(1, wide + 1):
        found = found.chosen(at(step), found.certain(low < low, low == low))
    return found


def index(x: Any, indices: Any) -> Any:
    """Entries at constant indices; raises `Undecided` for others."""
    return arranged.index(x, [None if one is None else _decided_indices(one) for one in indices])


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """The array with entries at constant indices replaced; raises `Undecided` for others."""
    if accumulate:
        raise NotModelled("numbers added at places, in any order")
    return arranged.index_put(
        x, [None if one is None else _decided_indices(one) for one in indices], values
    )


def _decided_indices(one: Any) -> Any:
    if not isinstance(one, Intervals):
        return one
    raise Undecided("a place that is not decided")


def solve_triangular(
    a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """The solution of a triangular system by substitution, with sums in any order."""
    one, other = both(a, b)
    if not left:
        turned = transpose(one, -1, -2), transpose(other, -1, -2)
        return transpose(solve_triangular(*turned, not upper, True, unitriangular), -1, -2)
    size = one.shape[-1]
    rows: dict[int, Intervals] = {}
    for at in reversed(range(size)) if upper else range(size):
        row, found = slice_along_axis(one, -2, at, at + 1), slice_along_axis(other, -2, at, at + 1)
        if rows:
            first, last = min(rows), max(rows) + 1
            known = concatenate_numbers([rows[each] for each in sorted(rows)], -2)
            found = addmm(found, -slice_along_axis(row, -1, first, last), known)
        rows[at] = found if unitriangular else found / slice_along_axis(row, -1, at, at + 1)
    return concatenate_numbers([rows[at] for at in range(size)], -2)


def slogdet(a: Any) -> tuple[Intervals, Intervals]:
    """An unused sign and the logarithm of a determinant, as computed by a decomposition with
    partial pivoting: that of a matrix at a distance of at most (Higham, section 9.3) gamma n
    2^(n - 1) times the largest entry.
    """
    size = a.shape[-1]
    largest = 2.0 ** (size - 1) * a.size.max((-2, -1), keepdims=True)
    off = of.up(2 * of.gamma(size) * size * largest)
    low, high = log_det_bounds((of.down(a.low - off), of.up(a.high + off)))
    # The sum of sizes of the logarithms of pivots, each of which is bounded by this.
    logs = 2 * size * np.maximum(np.log(2 * largest[..., 0, 0]), 0.0) + of.magnitude((low, high))
    rounding = (of.gamma(size) + 2 * FUNCTION * of.gamma(1)) * logs
    ends = of.down(low - rounding), of.up(high + rounding)
    open_ends = (
        None
        if a.d is None
        else (np.full(a.d[0].shape[:-2], -np.inf), np.full(a.d[0].shape[:-2], np.inf))
    )
    sign_ = a.certain(np.full(low.shape, -1.0), np.full(low.shape, 1.0))
    return sign_, a.made(ends, of.up(ends[1] - ends[0]), open_ends)


def _cast_intervals(x: Any, dtype: Any = None, **settings: Any) -> Any:
    """A cast to another dtype: booleans and integers keep their values."""
    name = str(dtype).removeprefix("torch.")
    if not isinstance(x, Intervals) or dtype is None or name == "float64":
        return ENTRIES["_to_copy"](x, dtype, **settings)
    if x.whole and name in ("int64", "int32"):
        return x
    raise NotModelled(f"a cast to {name}")


def _elu(x: Intervals, alpha: Any = 1, scale: Any = 1, inner: Any = 1) -> Any:
    below = mul(mul(x, inner).applied(INCREASING["expm1"]), alpha * scale)
    return where(gt(x, 0), mul(x, scale), below)


def _softplus(x: Intervals, beta: Any = 1, threshold: Any = 20) -> Any:
    scaled = x if beta == 1 else mul(x, beta)
    smooth = scaled.applied(INCREASING["exp"]).applied(INCREASING["log1p"])
    return where(gt(scaled, threshold), x, smooth if beta == 1 else div(smooth, beta))


def _cosh(x: Intervals) -> Intervals:
    return x.mapped(of.cosh(x.ends, FUNCTION), INCREASING["sinh"].ends(x.ends))


def _function(name: str) -> Callable[[Intervals], Intervals]:
    return lambda x: x.applied(INCREASING[name])


# Operators in terms of those of the numbers themselves.
OF_ANY_KIND = (
    "add", "sub", "mul", "rsub", "div", "neg", "reciprocal", "square", "sqrt", "rsqrt", "clone", "alias", "detach", "lift_fresh",
    "contiguous", "copy", "copy_",
)  # fmt: skip
BOUNDS: dict[str, Callable[..., Any]] = {
    # Scatter-adds add in any order.
    **{name: run for name, run in ARRANGEMENTS.items() if name != "scatter_add"},
    **{name: ENTRIES[name] for name in OF_ANY_KIND},
    **{name: _function(name) for name in INCREASING},
    **dict.fromkeys(("_to", "_to_copy"), _cast_intervals),
    "pow": power,
    "cosh": _cosh,
    "sin": lambda x: sine_or_cosine(x, np.sin, np.cos),
    "cos": lambda x: sine_or_cosine(x, np.cos, lambda y: -np.sin(y)),
    "abs": absolute,
    **dict.fromkeys(("sign", "sgn"), sign),
    "relu": lambda x: where(gt(x, 0), x, 0.0),
    "leaky_relu": lambda x, slope=0.01: where(gt(x, 0), x, mul(x, slope)),
    "elu": _elu,
    "softplus": _softplus,
    "gt": numeric(np.greater, gt),
    "lt": numeric(np.less, lambda a, b: gt(b, a)),
    "ge": numeric(np.greater_equal, ge),
    "le": numeric(np.less_equal, lambda a, b: ge(b, a)),
    "eq": numeric(np.equal, eq),
    "ne": numeric(np.not_equal, lambda a, b: logical_not(eq(a, b))),
    **dict.fromkeys(("logical_and", "bitwise_and"), numeric(np.logical_and, logical_and)),
    **dict.fromkeys(("logical_or", "bitwise_or"), numeric(np.logical_or, logical_or)),
    **dict.fromkeys(("logical_not", "bitwise_not"), logical_not),
    "where": where,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": lambda x, high: clamp(x, None, high),
    "maximum": lambda a, b: where(gt(a, b), a, b),
    "minimum": lambda a, b: where(gt(b, a), a, b),
    **{name: stepped(getattr(np, name)) for name in ("floor", "ceil", "trunc", "round")},
    "remainder": numeric(np.remainder, remainder),
    "amax": amax,
    "amin": lambda x, dim=(), keepdim=False: -amax(-x, dim, keepdim),
    "sum": sum_of_intervals,
    "mean": mean,
    "prod": prod,
    "cumsum": running_sum,
    "cumprod": running_reduction(lambda one, other: one * other),
    "dot": lambda a, b: sum_of_intervals(mul(a, b)),
    **dict.fromkeys(("mm", "bmm"), matmul),
    "addmm": addmm,
    "mv": lambda a, x: arranged.squeeze(matmul(a, unsqueeze(x, 1)), 1),
    "convolution": partial(convolution, products=matmul, sums=add),
    "_linalg_slogdet": slogdet,
    "linalg_solve_triangular": lambda a, b, upper, left=True, unitriangular=False: (
        solve_triangular(a, b, upper, left, unitriangular)
    ),
    "triu": triangle(upper=True, choose=where),
    "tril": triangle(upper=False, choose=where),
    "gather": gather,
    "index": index,
    "index_put": index_put,
}  # fmt: skip
