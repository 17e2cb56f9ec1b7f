"""How often a program of JAX reads the arrays of an object, and how long its loops are: what tells that
it iterates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common.jax_stretching import equations

# What takes a part of an array reads the array no more often than there are parts.
SLICING = frozenset({"dynamic_slice", "gather", "slice", "dynamic_index_in_dim", "squeeze"})


def iterates(call: Callable[..., Any], obj: Any, points: tuple[Any, Any], most: int) -> bool:
    """Whether a call runs through a loop, or reads a matrix of the object, more often than that; masks and
    scales are read several times by every layer.
    """
    import jax

    closed = jax.make_jaxpr(partial(call, obj))(*points)
    if any(steps > most for steps in loops(closed.jaxpr)):
        return True
    read = readings(closed.jaxpr)
    return any(read[one] > most for one in closed.jaxpr.constvars if one.aval.ndim > 1)


def loops(jaxpr: Any) -> Iterator[float]:
    """The lengths of all loops of a program that may be iterations; infinite where nothing tells it. A
    scan over arrays, a layer each, is none.
    """
    for equation in equations(jaxpr):
        if equation.primitive.name == "while":
            yield math.inf
        if equation.primitive.name == "scan":
            first = equation.params["num_consts"] + equation.params["num_carry"]
            over = [one.aval for one in equation.invars[first:]]
            if not any(one.ndim > 1 and np.issubdtype(one.dtype, np.floating) for one in over):
                yield equation.params["length"]


def readings(jaxpr: Any) -> Counter[Any]:
    """How often each input of a program is read: in a scan at each step, unless a step has a part of
    its own.
    """
    read: Counter[Any] = Counter()
    for equation in jaxpr.eqns:
        if equation.primitive.name in SLICING:
            continue
        inner, times, whole = _inner(equation)
        if inner is None:
            read.update(one for one in equation.invars if not hasattr(one, "val"))
            continue
        within = readings(inner)
        given = equation.invars[len(equation.invars) - len(inner.invars) :]
        for place, (outer, own) in enumerate(zip(given, inner.invars, strict=True)):
            if not hasattr(outer, "val"):
                read[outer] += within[own] * (times if place < whole else 1)
    return read


def _inner(equation: Any) -> tuple[Any, int, int]:
    """The program in an equation, how often it runs, and how many inputs are the same each time; of a
    loop of unknown length nothing, since `loops` tells it.
    """
    if equation.primitive.name == "scan":
        inner = equation.params["jaxpr"].jaxpr
        return inner, equation.params["length"], equation.params["num_consts"]
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        inner = getattr(inner, "jaxpr", inner)
        if hasattr(inner, "eqns") and len(inner.invars) <= len(equation.invars):
            return inner, 1, 0
    return None, 1, 0
