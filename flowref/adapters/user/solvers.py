"""Whether code hands its field to a library that solves differential equations."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowref.model import Array

# Libraries whose functions follow a field, each as exactly as it is told at the call.
LIBRARIES = ("torchdiffeq", "torchode", "diffrax")
# What an iteration, and a log-det that is integrated, are held to where nothing is promised of them.
FOUND, SOLVED = 1e-5, 1e-4
# An adaptive solver takes other steps for another draw of an estimate that it integrates beside the
# values: so many times its accuracy these may move, and so little of what the estimate moves.
STEPS, LITTLE = 100.0, 0.05


def integrates(obj: Any) -> bool:
    """Whether a method of an object, or of a module within, names a function of such a library."""
    return any(
        str(getattr(named, "__module__", None) or getattr(named, "__name__", "")).partition(".")[0]
        in LIBRARIES
        for function in _functions_of_modules(obj)
        for named in _referenced_globals(function)
    )


def _functions_of_modules(obj: Any) -> Iterator[types.FunctionType]:
    modules = obj.modules() if callable(getattr(obj, "modules", None)) else (obj,)
    for kind in {type(one) for one in modules}:
        for base in kind.__mro__:
            yield from (one for one in vars(base).values() if isinstance(one, types.FunctionType))


def _referenced_globals(function: types.FunctionType) -> Iterator[Any]:
    """What a function names of its module."""
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def steps_differ(obj: Any, values: tuple[Array, Array], estimates: tuple[Array, Array]) -> bool:
    """Whether what hands its field to a library has values that differ from draw to draw by the steps of a solver
    alone, which follow the estimate beside them.
    """
    return integrates(obj) and within_solver_error(values, estimates, STEPS * SOLVED)


def within_solver_error(
    values: tuple[Array, Array], estimates: tuple[Array, Array], accuracy: float
) -> bool:
    """Whether values move by no more than the error of a solver, whose steps follow an estimate that moves
    far more.
    """
    (one, other), (first, second) = values, estimates
    if not accuracy or one.shape != other.shape or first.shape != second.shape or not first.size:
        return False
    moved = float(np.nanmax(np.abs(one - other) / (1 + np.abs(one)), initial=0.0))
    return moved <= min(accuracy, LITTLE * float(np.nanmax(np.abs(first - second))))
