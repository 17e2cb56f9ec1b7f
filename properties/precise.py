"""Graphs of operators at 200 bits: what intervals are compared with. Numbers are those of mpmath, in object arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np

from flowref.model.graph import Graph, Ref

BITS = 200
# Of differences in the place of derivatives: of numbers as large as exponentials of exponentials.
MORE, STEP = 1600, -300


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of entries."""
    run = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(run(x), object)


def exact(values: Any) -> Any:
    """Numbers as they are."""
    return np.asarray(np.frompyfunc(lambda one: mpmath.mpf(float(one)), 1, 1)(values), object)


def along(x: Any, dim: Any) -> Any:
    """Axes, as numpy takes them."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(x.ndim))
    return tuple(dim) if isinstance(dim, list | tuple) else dim


def put(x: Any, indices: Any, values: Any) -> Any:
    """With other entries at places."""
    found = np.array(x, object)
    found[tuple(slice(None) if one is None else one for one in indices)] = values
    return found


def cut(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A part along an axis."""
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def padded(x: Any, pads: Any, value: Any = 0) -> Any:
    """With numbers around."""
    wide = list(zip(pads[::2], pads[1::2], strict=True))[::-1]
    return np.pad(x, [(0, 0)] * (x.ndim - len(wide)) + wide, constant_values=value)


def scattered(
    x: Any, y: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """With other entries in a part along an axis."""
    found = np.array(x, object)
    found[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)] = y
    return found


def logistic(x: Any) -> Any:
    """A sigmoid."""
    return 1 / (1 + mpmath.exp(-x))


FUNCTIONS: dict[str, Any] = {
    **{
        name: getattr(mpmath, name)
        for name in (
            "exp",
            "log",
            "log1p",
            "expm1",
            "tanh",
            "sqrt",
            "sinh",
            "cosh",
            "asinh",
            "atanh",
            "atan",
            "asin",
            "erf",
            "sin",
            "cos",
        )
    },
    "sigmoid": logistic,
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
}
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: each(function) for name, function in FUNCTIONS.items()},
    "add": lambda a, b, alpha=1: a + b * alpha,
    "sub": lambda a, b, alpha=1: a - b * alpha,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "reciprocal": lambda a: 1 / a,
    "pow": lambda a, b: a**b,
    "where": np.where,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "_linalg_slogdet": lambda a: [
        None,
        exact(0) + mpmath.log(abs(mpmath.det(mpmath.matrix(a.tolist())))),
    ],
    "amax": lambda x, dim=(), keepdim=False: np.max(x, along(x, dim), keepdims=keepdim),
    "sum": lambda x, dim=None, keepdim=False: np.asarray(
        np.sum(x, along(x, dim), keepdims=keepdim), object
    ),
    "mean": lambda x, dim=None, keepdim=False: np.asarray(
        np.mean(x, along(x, dim), keepdims=keepdim), object
    ),
    "cumsum": lambda x, dim: np.cumsum(x, dim),
    "prod": lambda x, dim=None, keepdim=False: np.asarray(
        np.prod(x, along(x, dim), keepdims=keepdim), object
    ),
    "mm": lambda a, b: a @ b,
    "addmm": lambda c, a, b: c + a @ b,
    **dict.fromkeys(("view", "reshape"), np.reshape),
    "permute": np.transpose,
    "unsqueeze": np.expand_dims,
    "squeeze": lambda x, dim: np.squeeze(x, tuple(dim) if isinstance(dim, list) else dim),
    "expand": lambda x, sizes: np.broadcast_to(
        x,
        [
            n if m == -1 else m
            for m, n in zip(sizes, (1,) * (len(sizes) - x.ndim) + x.shape, strict=True)
        ],
    ),
    "slice": cut,
    "select": lambda x, dim, at: np.take(x, at, dim),
    "index": lambda x, places: x[tuple(slice(None) if one is None else one for one in places)],
    "index_put": put,
    "gather": lambda x, dim, places: np.take_along_axis(x, places, dim),
    "cat": lambda parts, dim=0: np.concatenate(parts, dim),
    "flip": np.flip,
    "constant_pad_nd": padded,
    "slice_scatter": scattered,
    "split_with_sizes": lambda x, sizes, dim=0: np.split(x, np.cumsum(sizes)[:-1], dim),
    "unbind": lambda x, dim=0: [np.take(x, at, dim) for at in range(x.shape[dim])],
    "getitem": lambda x, at: x[at],
    **dict.fromkeys(("clone", "lift_fresh", "alias", "detach"), lambda x, **settings: x),
    "copy": lambda x, y: np.broadcast_to(y, x.shape),
    "full": lambda sizes, value, **settings: exact(np.full(sizes, value)),
    "scalar_tensor": lambda value, **settings: exact(value),
    "empty_permuted": lambda sizes, *order, **settings: exact(np.zeros(sizes)),
}


def truth(
    graph: Graph, points: Any, decided: Mapping[str, Any], bits: int = BITS
) -> dict[str, Any]:
    """The values of all nodes at points, if whole numbers and truth values are these."""
    values: dict[str, Any] = {name: exact(graph.constants[name]) for name in (*graph.weights,)}
    values[graph.points[0]] = points

    def given(one: Any) -> Any:
        if isinstance(one, Ref):
            return values[one.name]
        if isinstance(one, list | tuple):
            return [given(inner) for inner in one]
        return one

    with mpmath.workprec(bits):
        for node in graph.needed(decided):
            if node.name in decided:
                values[node.name] = np.asarray(decided[node.name])
            elif node.op == "constant":
                values[node.name] = exact(graph.constants[node.name])
            else:
                values[node.name] = OPERATORS[node.op](*given(node.args), **dict(node.named))
    return values


def slopes(graph: Graph, points: Any, decided: Mapping[str, Any], name: str, entry: int) -> Any:
    """The derivative of a node by an entry of all points, by differences so small that they round nothing off."""
    with mpmath.workprec(MORE):
        step = mpmath.mpf(2) ** STEP
        moved = np.zeros(points.shape[1:], object)
        moved.flat[entry] = step
        up, low = (truth(graph, points + turn * moved, decided, MORE)[name] for turn in (1, -1))
        return (up - low) / (2 * step)
