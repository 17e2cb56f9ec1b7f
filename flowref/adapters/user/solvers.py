"""Whether code calls a library of ODE solvers."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowref.model import Array

# ODE libraries; accuracy is an argument of each call.
LIBRARIES = ("torchdiffeq", "torchode", "diffrax")
# Tolerances of an iteration and of an integrated log-det, if none is promised.
FOUND, SOLVED = 1e-5, 1e-4
# An adaptive solver takes other steps for each draw of an estimate that it integrates with the
# values: values may vary by this multiple of its accuracy, and by this fraction of the estimate's
# variation.
STEPS, LITTLE = 100.0, 0.05


def integrates(obj: Any) -> bool:
    """Whether a method of an object or of its modules refers to such a library."""
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
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]


def steps_differ(obj: Any, values: tuple[Array, Array], estimates: tuple[Array, Array]) -> bool:
    """Whether values ``(n, *event)`` of an object with an ODE library differ between two draws only by
    solver steps that adapt to random estimates ``(n,)``.
    """
    return integrates(obj) and within_solver_error(values, estimates, STEPS * SOLVED)


def within_solver_error(
    values: tuple[Array, Array], estimates: tuple[Array, Array], accuracy: float
) -> bool:
    """Whether values ``(n, *event)`` of two draws differ by at most a solver's ``accuracy``, while the
    estimates ``(n,)`` that its steps adapt to differ far more.
    """
    (one, other), (first, second) = values, estimates
    if not accuracy or one.shape != other.shape or first.shape != second.shape or not first.size:
        return False
    moved = float(np.nanmax(np.abs(one - other) / (1 + np.abs(one)), initial=0.0))
    return moved <= min(accuracy, LITTLE * float(np.nanmax(np.abs(first - second))))
