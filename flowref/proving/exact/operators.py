"""The operators of traced graphs on residues: a table by the operators' names in ATen.

A floating array is `Residues`, an array of integers or booleans is one of numpy, and an undecided
comparison is an array of bits, residues that are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from flowref.proving import arrangements as arranged
from flowref.proving.exact import arithmetic as of
from flowref.proving.exact import matrices
from flowref.proving.exact.residues import Residues
from flowref.proving.numbers import POSITIVE, NotModelled, Numbers, add, div, mul, sub

# Half of a number.
HALF = Fraction(1, 2)


def numeric(numbers: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """Dispatches an operator: to numpy if all operands are arrays or numbers, else to the kind of
    numbers.
    """

    def run(*given: Any, **settings: Any) -> Any:
        moving = any(isinstance(one, Numbers) for one in given)
        return others(*given, **settings) if moving else numbers(*given, **settings)

    return run


def _cast_residues(x: Any, dtype: Any = None, **settings: Any) -> Any:
    """A cast to another dtype: from booleans to numbers, and between numbers only to wider ones."""
    name = str(dtype).removeprefix("torch.")
    if dtype is None or name == "float64":
        return (
            x
            if isinstance(x, Residues)
            else x.astype(float)
            if isinstance(x, np.ndarray) and x.dtype == bool
            else x
        )
    if isinstance(x, Residues):
        raise NotModelled(f"a cast to {name}")
    return x.astype(name.replace("bool", "bool_"))


def _raise_not_modelled(what: str) -> Any:
    raise NotModelled(what)


def _identity_operator(x: Any, *given: Any, **settings: Any) -> Any:
    return x


def _of_its_sign(function: Callable[[Residues], Residues]) -> Callable[[Residues], Residues]:
    return lambda x: replace(function(x), sign=x.sign)


# Increasing functions that are zero at zero.
INCREASING: dict[str, Callable[[Residues], Residues]] = {
    "expm1": lambda x: (grown := x.exp()) - grown.constant(1),
    "log1p": lambda x: (x + x.constant(1)).log(),
    "tanh": of.tanh,
    "erf": of.erf,
    "erfinv": of.erfinv,
    "sinh": lambda x: ((grown := x.exp()) - grown.reciprocal()) * x.constant(HALF),
    "asinh": lambda x: replace(
        x + (x * x + x.constant(1)).sqrt(), sign=np.full(x.shape, POSITIVE, np.int8)
    ).log(),
    "atanh": lambda x: ((x.constant(1) + x) / (x.constant(1) - x)).log().by_halves(1),
    "atan": lambda x: x.opaque("atan", (x * x + x.constant(1)).reciprocal()),
    "asin": lambda x: x.opaque("asin", (x.constant(1) - x * x).sqrt().reciprocal()),
}

ENTRIES: dict[str, Callable[..., Any]] = {
    "add": numeric(np.add, add),
    "sub": numeric(np.subtract, sub),
    "mul": numeric(np.multiply, mul),
    "rsub": lambda a, b, alpha=1: sub(b, a if alpha == 1 else mul(a, alpha)),
    "div": div,
    "neg": lambda x: -x,
    "reciprocal": lambda x: x.reciprocal(),
    "pow": of.pow_,
    "square": lambda x: x * x,
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.sqrt().reciprocal(),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * x.constant(2).log()).exp(),
    "log": lambda x: x.log(),
    "log2": lambda x: x.log() / x.constant(2).log(),
    "sigmoid": of.logistic,
    "softplus": of.softplus,
    "cosh": lambda x: ((grown := x.exp()) + grown.reciprocal()) * x.constant(HALF),
    "sin": lambda x: of.sine_and_cosine(x)[0],
    "cos": lambda x: of.sine_and_cosine(x)[1],
    "atan2": of.atan2,
    "acos": lambda x: x.opaque("acos", -(x.constant(1) - x * x).sqrt().reciprocal()),
    "abs": of.absolute,
    "sign": of.sign,
    "sgn": of.sign,
    "relu": lambda x: of.where(of.gt(x, 0), x, 0.0),
    "leaky_relu": lambda x, slope=0.01: of.where(of.gt(x, 0), x, mul(x, slope)),
    "elu": of.elu,
    **{name: _of_its_sign(function) for name, function in INCREASING.items()},
    **dict.fromkeys(("_to", "_to_copy"), _cast_residues),
    **dict.fromkeys(("clone", "alias", "detach", "lift_fresh", "contiguous"), _identity_operator),
    **dict.fromkeys(
        ("copy", "copy_"), lambda x, y, non_blocking=False: arranged.expand(y, x.shape)
    ),
}
COMPARISONS: dict[str, Callable[..., Any]] = {
    "gt": numeric(np.greater, of.gt),
    "lt": numeric(np.less, of.lt),
    "ge": numeric(np.greater_equal, lambda a, b: of.logical_not(of.lt(a, b))),
    "le": numeric(np.less_equal, lambda a, b: of.logical_not(of.gt(a, b))),
    # A number is NaN only where it is undefined, which the conditions of a run state.
    "isnan": numeric(np.isnan, lambda x: np.zeros(x.shape, bool)),
    "isfinite": numeric(np.isfinite, lambda x: np.ones(x.shape, bool)),
    **dict.fromkeys(("logical_and", "bitwise_and"), of.logical_and),
    **dict.fromkeys(("logical_or", "bitwise_or"), of.logical_or),
    **dict.fromkeys(("logical_not", "bitwise_not"), of.logical_not),
    "where": numeric(np.where, of.where),
    "clamp": of.clamp,
    "clamp_min": lambda x, low: of.clamp(x, low),
    "clamp_max": lambda x, high: of.clamp(x, None, high),
    "maximum": lambda a, b: of.where(of.gt(a, b), a, b),
    "minimum": lambda a, b: of.where(of.gt(b, a), a, b),
    "amax": of.amax,
    "amin": lambda x, dim=(), keepdim=False: -of.amax(-x, dim, keepdim),
}
SUMS: dict[str, Callable[..., Any]] = {
    "sum": of.sum_of_residues,
    "mean": of.mean,
    "var": of.var,
    "var_mean": lambda x, dim=None, correction=1, keepdim=False: (
        of.var(x, dim, correction, keepdim),
        of.mean(x, dim, keepdim),
    ),
    "prod": of.prod,
    "cumsum": of.running_reduction(lambda one, other: one + other),
    "cumprod": of.running_reduction(lambda one, other: one * other),
    "linalg_vector_norm": lambda x, ord=2, dim=None, keepdim=False: (
        of.sum_of_residues(x * x, dim, keepdim).sqrt()
        if ord == 2
        else _raise_not_modelled("a norm that is not Euclidean")
    ),
}
MATRICES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("mm", "bmm"), matrices.matmul),
    "addmm": matrices.addmm,
    "mv": lambda a, x: arranged.squeeze(matrices.matmul(a, arranged.unsqueeze(x, 1)), 1),
    "dot": lambda a, b: of.sum_of_residues(a * b),
    "convolution": matrices.convolution,
    "convolution_backward": matrices.convolution_backward,
    "_linalg_slogdet": matrices.slogdet,
    "_linalg_det": lambda a: (matrices.determinant(a), None, None),
    # The factors of a solve are unused.
    "_linalg_solve_ex": lambda *given, **settings: (
        matrices.solve(*given, **settings),
        None,
        None,
        None,
    ),
    "linalg_inv_ex": lambda a, check_errors=False: (
        matrices.solve(a, np.broadcast_to(np.eye(a.shape[-1]), a.shape)),
        None,
    ),
    "linalg_solve_triangular": lambda a, b, upper, left=True, unitriangular=False: (
        matrices.solve_triangular(a, b, upper, left, unitriangular)
    ),
    "triangular_solve": lambda b, a, upper=True, transpose=False, unitriangular=False: (
        matrices.solve_triangular(
            arranged.transpose(a, -1, -2) if transpose else a,
            b,
            upper != transpose,
            True,
            unitriangular,
        ),
        a,
    ),
    "triu": of.triangle(upper=True),
    "tril": of.triangle(upper=False),
}
ARRANGEMENTS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), arranged.view),
    "permute": arranged.permute,
    "transpose": arranged.transpose,
    "t": lambda x: arranged.transpose(x, 0, 1) if len(x.shape) == 2 else x,
    "unsqueeze": arranged.unsqueeze,
    "squeeze": arranged.squeeze,
    "expand": arranged.expand,
    "slice": lambda x, dim=0, start=None, end=None, step=1: arranged.slice_along_axis(
        x, dim, start, end, step
    ),
    "select": arranged.select,
    "index": arranged.index,
    "gather": arranged.gather,
    "index_select": lambda x, dim, places: arranged.index(
        x, [*[None] * (dim % len(x.shape)), places]
    ),
    "embedding": lambda weight, places, *settings: arranged.index(weight, [places]),
    "cat": arranged.cat,
    "stack": arranged.stack,
    "split_with_sizes": arranged.split_with_sizes,
    "split": arranged.split,
    "unbind": lambda x, dim=0: [arranged.select(x, dim, at) for at in range(x.shape[dim])],
    "getitem": lambda x, at: x[at],
    "flip": arranged.flip,
    "diagonal": arranged.diagonal,
    "repeat": arranged.tiled,
    "slice_scatter": arranged.slice_scatter,
    "select_scatter": arranged.select_scatter,
    "index_put": arranged.index_put,
    "scatter": arranged.scatter,
    "scatter_add": arranged.scatter_add,
    "constant_pad_nd": arranged.constant_pad_nd,
    **dict.fromkeys(("full", "new_full"), arranged.full),
    "full_like": lambda x, value: arranged.full(x.shape, value),
    **dict.fromkeys(
        ("zeros", "empty", "empty_permuted"), lambda sizes, order=None: arranged.full(sizes, 0.0)
    ),
    **dict.fromkeys(("zeros_like", "empty_like"), lambda x: arranged.full(x.shape, 0.0)),
    "ones": lambda sizes: arranged.full(sizes, 1.0),
    "ones_like": lambda x: arranged.full(x.shape, 1.0),
    "new_zeros": lambda x, sizes: arranged.full(sizes, 0.0),
    "new_empty_strided": lambda x, sizes, strides: arranged.full(sizes, 0.0),
    "new_ones": lambda x, sizes: arranged.full(sizes, 1.0),
    "new_full": lambda x, sizes, value: arranged.full(sizes, value),
    "scalar_tensor": np.asarray,
    "arange": np.arange,
    "eye": np.eye,
}
OPERATORS = {**ENTRIES, **COMPARISONS, **SUMS, **MATRICES, **ARRANGEMENTS}
# Casts.
CASTS = ("_to", "_to_copy")
# Integer operators that are exact in numpy.
EXACT = ("add", "sub", "mul")
# Operators that work on numpy arrays directly; elsewhere these are lifted to residues.
PLAIN = {
    *EXACT, *CASTS, *ARRANGEMENTS, "gt", "lt", "ge", "le", "logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_not",
    "bitwise_not", "clone", "alias", "detach", "lift_fresh", "contiguous", "copy", "copy_",
}  # fmt: skip
