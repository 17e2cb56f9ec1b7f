"""Primitives of jaxprs in numpy: small programs run faster this way than they compile.

Each entry takes an equation and returns a function of its arrays. Primitives without an entry are
run by JAX, one operation at a time (`interpreter.py`). Results of numpy and XLA differ by a few
units in the last place, a thousandth of the random rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from flowref.backends.jax.array_indexing import add_in_place, gathered, replace_in_place, scattered
from flowref.backends.jax.array_random import random_bits, random_gamma, random_split

Function = Callable[..., Any]
Prepare = Callable[[Any], Function | None]


def _always(function: Function) -> Prepare:
    return lambda equation: function


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _not(x: Any) -> Any:
    return np.logical_not(x) if x.dtype == bool else np.invert(x)


def _clamped(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _identity_or_list(*given: Any) -> Any:
    return given[0] if len(given) == 1 else list(given)


ELEMENTWISE: dict[str, Function] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "abs": np.abs, "sign": np.sign, "max": np.maximum, "min": np.minimum, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": _rsqrt, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "logistic": _logistic, "square": np.square, "pow": np.power,
    "is_finite": np.isfinite, "floor": np.floor, "ceil": np.ceil, "not": _not,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "nextafter": np.nextafter, "clamp": _clamped, "real": np.real,
    "imag": np.imag, "conj": np.conj, "rem": np.fmod, "copy": _identity_or_list, "copy_p": _identity_or_list,
    "stop_gradient": _identity_or_list, "optimization_barrier": _identity_or_list, "erf": special.erf,
    "erfc": special.erfc, "erf_inv": special.erfinv, "lgamma": special.gammaln,
    "digamma": special.digamma, "bessel_i0e": special.i0e, "bessel_i1e": special.i1e,
    "igamma": special.gammainc, "igammac": special.gammaincc,
    "regularized_incomplete_beta": special.betainc,
}  # fmt: skip


def _div(equation: Any) -> Function | None:
    kind = _dtype(equation).kind
    return np.divide if kind in "fc" else np.floor_divide if kind == "u" else None


def _total_order(compare: Any) -> Prepare:
    """Comparisons in the total order of floats, with -0 before 0 and nan last: of the bits, as
    integers.
    """

    def prepare(equation: Any) -> Function | None:
        dtype = _dtype_in(equation)
        if dtype not in (np.float32, np.float64):
            return None
        whole = np.int64 if dtype == np.float64 else np.int32

        def ordered(x: Any) -> Any:
            bits = np.ascontiguousarray(x).view(whole)
            return bits ^ ((bits >> (8 * dtype.itemsize - 1)) & np.iinfo(whole).max)

        return lambda x, y: np.reshape(compare(ordered(x), ordered(y)), np.broadcast(x, y).shape)

    return prepare


def _integer_pow(equation: Any) -> Function:
    power = equation.params["y"]
    if power == 2:
        return np.square
    return lambda x: x**power if power >= 0 else 1 / x**-power


def _converted(equation: Any) -> Function | None:
    dtype, before = _dtype(equation), _dtype_in(equation)
    known = dtype.kind in "fciub" and before.kind in "fciub"
    if not known or (dtype.kind in "iu" and before.kind == "f"):  # XLA saturates
        return None
    return lambda x: np.asarray(x).astype(dtype)


def _round(equation: Any) -> Function | None:
    return np.round if int(equation.params["rounding_method"]) == 1 else None


def _shifted(function: Function) -> Prepare:
    """Shifts of unsigned integers; a shift beyond the width gives 0."""

    def prepare(equation: Any) -> Function | None:
        dtype = _dtype(equation)
        if dtype.kind != "u":
            return None
        bits = 8 * dtype.itemsize
        return lambda x, by: np.where(by < bits, function(x, np.minimum(by, bits - 1)), 0)

    return prepare


def _read_as(equation: Any) -> Function | None:
    dtype = _dtype(equation)
    same = dtype.itemsize == _dtype_in(equation).itemsize and dtype.kind in "iuf"
    return (lambda x: np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))) if same else None


def _select(equation: Any) -> Function | None:
    if len(equation.invars) != 3:
        return None
    return lambda which, no, yes: np.where(which, yes, no)


def _broadcast(equation: Any) -> Function:
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    ones = [1] * len(shape)
    for place, size in zip(places, equation.invars[0].aval.shape, strict=True):
        ones[place] = size
    return lambda x, *_: np.broadcast_to(np.reshape(x, ones), shape)


def _reshaped(equation: Any) -> Function:
    """Reshape, squeeze and expand_dims: the result's shape suffices, unless axes are transposed
    first, as `jax.vmap` does in the gradient of a convolution.
    """
    shape, order = equation.outvars[0].aval.shape, equation.params.get("dimensions")
    if equation.primitive.name == "reshape" and order is not None:
        return lambda x: np.reshape(np.transpose(x, order), shape)
    return lambda x: np.reshape(x, shape)


def _transposed(equation: Any) -> Function:
    order = equation.params["permutation"]
    return lambda x: np.transpose(x, order)


def _concatenation(equation: Any) -> Function:
    axis = equation.params["dimension"]
    return lambda *given: np.concatenate(given, axis=axis)


def _cut(equation: Any) -> Function:
    params = equation.params
    steps = params["strides"] or [1] * len(params["start_indices"])
    ranges = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    where = tuple(slice(*one) for one in ranges)
    return lambda x: x[where]


def _split_function(equation: Any) -> Function:
    ends = np.cumsum(equation.params["sizes"])[:-1]
    axis = equation.params["axis"]
    return lambda x: np.split(x, ends, axis=axis)


def _flipped(equation: Any) -> Function:
    axes = equation.params["dimensions"]
    return lambda x: np.flip(x, axes)


def _window(shape: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    begins = [
        min(max(int(start), 0), whole - size)
        for start, whole, size in zip(starts, shape, sizes, strict=True)
    ]
    return tuple(slice(start, start + size) for start, size in zip(begins, sizes, strict=True))


def _dynamic_cut(equation: Any) -> Function:
    sizes = equation.params["slice_sizes"]
    return lambda x, *starts: x[_window(x.shape, starts, sizes)]


def _dynamic_set(equation: Any) -> Function:
    def run(x: Any, new: Any, *starts: Any) -> Any:
        made = np.array(x)
        made[_window(x.shape, starts, new.shape)] = new
        return made

    return run


def _padding_function(equation: Any) -> Function | None:
    spread = equation.params["padding_config"]
    if any(min(one) < 0 for one in spread):
        return None
    shape, before = equation.outvars[0].aval.shape, equation.invars[0].aval.shape
    where = tuple(
        slice(low, low + max(0, (size - 1) * (inner + 1) + 1), inner + 1)
        for (low, _, inner), size in zip(spread, before, strict=True)
    )

    def run(x: Any, value: Any) -> Any:
        made = np.full(shape, value, dtype=np.asarray(x).dtype)
        made[where] = x
        return made

    return run


def _iota(equation: Any) -> Function:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    ones = [1] * len(shape)
    ones[axis] = shape[axis]
    made = np.broadcast_to(np.arange(shape[axis], dtype=_dtype(equation)).reshape(ones), shape)
    return lambda *_: made


def _reduced(function: Function) -> Prepare:
    def prepare(equation: Any) -> Function:
        axes = tuple(equation.params["axes"])
        return lambda x: function(x, axis=axes)

    return prepare


def _of_truths(function: Function) -> Prepare:
    """Reductions of booleans; on integers the primitives are bitwise."""
    return lambda equation: _reduced(function)(equation) if _dtype(equation).kind == "b" else None


def _sum_function(equation: Any) -> Function:
    axes, dtype = tuple(equation.params["axes"]), _dtype(equation)
    return lambda x: np.sum(x, axis=axes, dtype=dtype)


def _arg(function: Function) -> Prepare:
    def prepare(equation: Any) -> Function | None:
        axes = equation.params["axes"]
        return (lambda x: function(x, axis=axes[0])) if len(axes) == 1 else None

    return prepare


def _cumulative_function(function: Any) -> Prepare:
    def prepare(equation: Any) -> Function:
        axis, dtype = equation.params["axis"], _dtype(equation)

        def run(x: Any) -> Any:
            if not equation.params["reverse"]:
                return function.accumulate(x, axis=axis, dtype=dtype)
            return np.flip(function.accumulate(np.flip(x, axis), axis=axis, dtype=dtype), axis)

        return run

    return prepare


def _sorted(equation: Any) -> Function | None:
    axis = equation.params["dimension"]
    if equation.params["num_keys"] != 1:
        return None
    if len(equation.invars) == 1:
        return lambda x: [np.sort(x, axis=axis)]

    def run(*given: Any) -> Any:
        order = np.argsort(given[0], axis=axis, kind="stable")
        return [np.take_along_axis(one, order, axis) for one in given]

    return run


def _dot(equation: Any) -> Function | None:
    (left_in, right_in), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right = (variable.aval for variable in equation.invars)
    if left.dtype.kind not in "fc" or left.dtype != right.dtype:
        return None
    left_free = [a for a in range(left.ndim) if a not in (*left_in, *left_batch)]
    right_free = [a for a in range(right.ndim) if a not in (*right_in, *right_batch)]
    left_order = (*left_batch, *left_free, *left_in)
    right_order = (*right_batch, *right_in, *right_free)
    rows, inner, columns = (
        math.prod(whole.shape[axis] for axis in axes)
        for whole, axes in ((left, left_free), (left, left_in), (right, right_free))
    )
    batch = [left.shape[axis] for axis in left_batch]
    shape = equation.outvars[0].aval.shape

    def run(x: Any, y: Any) -> Any:
        x = np.transpose(x, left_order).reshape(*batch, rows, inner)
        y = np.transpose(y, right_order).reshape(*batch, inner, columns)
        return np.matmul(x, y).reshape(shape)

    return run


def _dtype(equation: Any) -> Any:
    return np.dtype(equation.outvars[0].aval.dtype)


def _dtype_in(equation: Any) -> Any:
    return np.dtype(equation.invars[0].aval.dtype)


FUNCTIONS: dict[str, Prepare] = {
    **{name: _always(function) for name, function in ELEMENTWISE.items()},
    "div": _div, "integer_pow": _integer_pow, "convert_element_type": _converted,
    "round": _round, "select_n": _select, "broadcast_in_dim": _broadcast, "reshape": _reshaped,
    "squeeze": _reshaped, "expand_dims": _reshaped, "transpose": _transposed,
    "concatenate": _concatenation, "slice": _cut, "split": _split_function, "rev": _flipped,
    "dynamic_slice": _dynamic_cut, "dynamic_update_slice": _dynamic_set, "pad": _padding_function,
    "iota": _iota, "reduce_sum": _sum_function, "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min), "reduce_prod": _reduced(np.prod),
    "reduce_and": _of_truths(np.all), "reduce_or": _of_truths(np.any), "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin), "cumsum": _cumulative_function(np.add), "cumprod": _cumulative_function(np.multiply),
    "cummax": _cumulative_function(np.maximum), "cummin": _cumulative_function(np.minimum),
    "cumlogsumexp": _cumulative_function(np.logaddexp), "sort": _sorted, "dot_general": _dot,
    "le_to": _total_order(np.less_equal), "lt_to": _total_order(np.less), "gather": gathered,
    "scatter": scattered(replace_in_place), "scatter-add": scattered(add_in_place),
    "scatter_add": scattered(add_in_place), "random_bits": random_bits,
    "random_split": random_split, "random_gamma": random_gamma,
    "shift_right_logical": _shifted(np.right_shift),
    "shift_left": _shifted(np.left_shift), "bitcast_convert_type": _read_as,
}  # fmt: skip


def function_of(equation: Any) -> Function | None:
    """Returns the function of an equation's arrays, or None if numpy has none."""
    prepare = FUNCTIONS.get(equation.primitive.name)
    kinds = [getattr(one.aval, "dtype", None) for one in (*equation.invars, *equation.outvars)]
    plain = all(isinstance(kind, np.dtype) for kind in kinds) or prepare in (
        random_bits,
        random_split,
        random_gamma,
    )
    if prepare is None or not plain:
        return None
    return prepare(equation)
