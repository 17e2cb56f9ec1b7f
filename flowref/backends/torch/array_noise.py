"""Monte-Carlo arithmetic for numpy: random rounding of what a module computes in arrays, between
one tensor and the next.

Arithmetic on arrays is not dispatched to torch. Under noise, `Tensor.numpy` returns a subclass of
arrays whose universal functions round (those of `scipy.special` are such functions, too), sums and
products round inside, and factorizations get normwise noise. C code on plain memory is not rounded:
only the noise of its inputs, and of the inputs of the next call, allows for its rounding.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch

from flowref.backends.process import standing_in
from flowref.backends.torch.operators import NORMWISE_CONSTANT

# Universal functions that move, select or compare, without rounding.
EXACT = frozenset(
    """
    absolute fabs negative positive sign copysign maximum minimum fmax fmin floor ceil rint trunc
    isfinite isinf isnan signbit nextafter frexp ldexp modf fmod remainder conjugate clip heaviside
    """.split()
)
# Functions of `scipy.special` and the like that are accurate to a few units in the last place only.
ORDINARY = frozenset(
    """
    add subtract multiply divide true_divide square sqrt cbrt reciprocal power float_power exp exp2
    expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh
    arccosh arctanh hypot logaddexp logaddexp2 matmul degrees radians deg2rad rad2deg floor_divide
    """.split()
)
SPECIAL_CONSTANT = 8.0
SUMS, PRODUCTS, QUOTIENTS = {"add", "subtract"}, {"multiply"}, {"divide", "true_divide"}
# Functions other than universal ones that multiply and add inside.
INSIDE = frozenset(
    "dot vdot inner outer tensordot einsum convolve correlate trapezoid interp".split()
)

# Methods of `scipy.stats` distributions with numerical results, in either of its infrastructures.
NUMERICAL_METHODS = (
    *("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"),
    *("ccdf", "logccdf", "icdf", "iccdf"),
)
# Modules of `scipy.stats` that define these methods.
STATS_MODULES = ("_distn_infrastructure", "_distribution_infrastructure", "_multivariate", "_kde")


class Rounding(Protocol):
    """The noise of a call: see `RandomRounding`."""

    busy: int
    operations: int

    def magnitude_of(self, array: Any) -> float:
        """The half-width of the relative error of results of the array's dtype."""

    def unrounded_guess(self, array: Any) -> Any:
        """A float32 array perturbed within its rounding, in float64; other arrays unchanged."""

    def uniform(self, like: Any) -> Any:
        """Uniform numbers in [-1, 1], in the shape and dtype of an array."""


class RoundedArray(np.ndarray[Any, Any]):
    """An array whose arithmetic is randomly rounded by ``rounding``."""

    rounding: Rounding | None = None

    def __array_finalize__(self, parent: Any) -> None:
        self.rounding = getattr(parent, "rounding", None)

    def __reduce__(self) -> Any:
        return np.asarray(self).view(np.ndarray).__reduce__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """Calls a universal function, and rounds its result."""
        rounding = self.rounding or next(
            (one.rounding for one in inputs if isinstance(one, RoundedArray)), None
        )
        plain = [_unrounded_array(one) for one in inputs]
        if rounding is not None and any(_has_dtype(one, np.float64) for one in plain):
            plain = [
                rounding.unrounded_guess(one) if _has_dtype(one, np.float32) else one
                for one in plain
            ]
        name = ufunc.__name__
        inside = name == "matmul" or (method != "__call__" and name in ("add", "multiply"))
        if inside and rounding is not None:
            plain = [_relative(one, rounding) for one in plain]
        out = named.pop("out", None)
        if out is not None:
            named["out"] = tuple(_unrounded_array(one) for one in out)
        result = getattr(ufunc, method)(*plain, **named)
        if rounding is None or method in ("at", "reduceat") or name in EXACT:
            return self._kept(result, out, rounding)
        rounding.operations += 1
        if isinstance(result, tuple):
            rounded: Any = tuple(_rounded(name, plain, one, rounding) for one in result)
        else:
            rounded = _rounded(name, plain, result, rounding)
        return self._kept(rounded, out, rounding)

    def __array_function__(
        self, function: Any, types: Any, inputs: Any, named: Mapping[str, Any]
    ) -> Any:
        """Calls another function of numpy: products and factorizations are rounded; the others
        consist of universal functions, or move numbers.
        """
        rounding, name = self.rounding, function.__name__
        linear = function.__module__ == "numpy.linalg"
        if rounding is not None and (linear or name in INSIDE):
            disturb = _normwise if linear else _relative
            inputs = _map_nested_arrays(inputs, lambda one: disturb(one, rounding))
            named = dict(_map_nested_arrays(tuple(named.items()), lambda one: one))
            return self._kept(function(*inputs, **named), None, rounding)
        return self._kept(
            super().__array_function__(function, types, inputs, named), None, rounding
        )

    def _kept(self, result: Any, out: Any, rounding: Rounding | None) -> Any:
        if out is not None:
            return out[0] if len(out) == 1 else out
        return _map_nested_arrays(result, lambda one: _rounded_argument(one, rounding))


@contextlib.contextmanager
def arrays_rounded(rounding: Rounding) -> Iterator[None]:
    """Inside, `Tensor.numpy` returns arrays that round, with the noise ``rounding``.

    A mode of torch would see the call too, but slow down every other operation.
    """
    before: Any = torch.Tensor.numpy

    def numpy(tensor: Any, *inputs: Any, **named: Any) -> Any:
        out = before(tensor, *inputs, **named)
        return out if rounding.busy else _rounded_argument(out, rounding)

    torch.Tensor.numpy = numpy  # type: ignore[method-assign, assignment]  # for a while
    try:
        with _distributions_rounded(rounding):
            yield
    finally:
        if before is torch._C.TensorBase.numpy:
            del torch.Tensor.numpy
        else:
            torch.Tensor.numpy = before  # type: ignore[method-assign]  # an outer one


@contextlib.contextmanager
def _distributions_rounded(rounding: Rounding) -> Iterator[None]:
    """Inside, distributions of scipy round their results for arrays that round: they compute on
    plain memory.
    """
    _ROUNDINGS.append(rounding)
    try:
        with contextlib.ExitStack() as stack:
            for owner, names in _distribution_classes(
                tuple(sys.modules.get(f"scipy.stats.{one}") for one in STATS_MODULES)
            ):
                own = {name: _rounded_method(vars(owner)[name]) for name in names}
                stack.enter_context(standing_in(owner, **own))
            yield
    finally:
        _ROUNDINGS.pop()


# The active noises, the innermost last.
_ROUNDINGS: list[Rounding] = []


@functools.cache  # noise is switched on for each call
def _rounded_method(method: Any) -> Any:
    @functools.wraps(method)
    def rounded_method(self: Any, *inputs: Any, **named: Any) -> Any:
        rounding = _ROUNDINGS[-1]
        plain = [_unrounded_array(one) for one in inputs]
        out = method(self, *plain, **{key: _unrounded_array(one) for key, one in named.items()})
        rounds = any(isinstance(one, RoundedArray) for one in (*inputs, *named.values()))
        if not rounds or rounding.busy or not _is_floating_array(out):
            return out
        rounding.operations += 1
        rough = _rounded(method.__name__, plain, np.array(out), rounding)
        # Integers are exact, as quantiles of discrete distributions are.
        return _rounded_argument(np.where(np.trunc(out) == out, out, rough), rounding)

    return rounded_method


@functools.cache
def _distribution_classes(modules: tuple[Any, ...]) -> list[tuple[Any, list[str]]]:
    """The classes defined in these modules, with the methods of `NUMERICAL_METHODS` that each
    defines.
    """
    found = []
    for module in filter(None, modules):
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                names = [name for name in NUMERICAL_METHODS if name in vars(kind)]
                if names and kind.__name__ != "rv_discrete":
                    found.append((kind, names))
    return found


def _rounded_argument(value: Any, rounding: Rounding | None) -> Any:
    if rounding is None or not isinstance(value, np.ndarray) or not _is_floating_array(value):
        return _unrounded_array(value)
    rounded = value.view(RoundedArray)
    rounded.rounding = rounding
    return rounded


def _unrounded_array(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, RoundedArray) else value


def _is_floating_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.floating) and value.dtype.kind in "fc"


def _has_dtype(value: Any, dtype: Any) -> bool:
    return isinstance(value, np.ndarray | np.floating) and value.dtype == dtype


def _map_nested_arrays(value: Any, change: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_nested_arrays(one, change) for one in value))
    if isinstance(value, tuple | list):
        return type(value)(_map_nested_arrays(one, change) for one in value)
    return change(value)


def _relative(value: Any, rounding: Rounding) -> Any:
    value = _unrounded_array(value)
    if not (isinstance(value, np.ndarray) and _is_floating_array(value)):
        return value
    return value * (1 + rounding.magnitude_of(value) * _uniform(value, rounding))


def _normwise(value: Any, rounding: Rounding) -> Any:
    """A matrix with an error relative to its largest entry."""
    value = _unrounded_array(value)
    if not (isinstance(value, np.ndarray) and _is_floating_array(value) and value.ndim >= 2):
        return _relative(value, rounding)
    largest = np.abs(value).max(axis=(-2, -1), keepdims=True, initial=0.0)
    magnitude = NORMWISE_CONSTANT * rounding.magnitude_of(value)
    return value + magnitude * largest * _uniform(value, rounding)


def _rounded(name: str, inputs: Any, result: Any, rounding: Rounding) -> Any:
    """A result with its error, in new memory or in that of ``out``."""
    if not _is_floating_array(result):
        return result
    factor = rounding.magnitude_of(result) * (1.0 if name in ORDINARY else SPECIAL_CONSTANT)
    error = 1 + factor * _uniform(np.asarray(result), rounding)
    exact = _exact(name, inputs, result)
    if exact is not None:
        error = np.where(exact, 1.0, error)
    with np.errstate(all="ignore"):
        if isinstance(result, np.ndarray):
            result *= error.astype(error.dtype if result.dtype.kind == "c" else result.dtype)
            return result
        return result * error[()]


def _uniform(value: Any, rounding: Rounding) -> Any:
    real = np.empty(value.shape) if value.dtype.kind == "c" else value
    return rounding.uniform(real)


def _exact(name: str, inputs: Any, result: Any) -> Any:
    """A mask of where an operation of two operands is exact, or None if nowhere."""
    if len(inputs) != 2 or name not in SUMS | PRODUCTS | QUOTIENTS:
        return None
    first, second = (np.asarray(one) for one in inputs)
    if name in SUMS:
        whole = (np.trunc(first.real) == first) & (np.trunc(second.real) == second)
        return (first == 0) | (second == 0) | (whole & (np.abs(result) < 2.0**24))
    if name in PRODUCTS:
        return _power_of_two(first) | _power_of_two(second)
    return _power_of_two(second)


def _power_of_two(value: Any) -> Any:
    return np.isin(np.abs(np.frexp(value)[0]), (0.0, 0.5)) if value.dtype.kind in "iuf" else False
