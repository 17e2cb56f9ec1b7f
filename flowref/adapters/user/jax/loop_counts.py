"""How often a JAX program reads the arrays of an object, and the lengths of its loops: signs of an
iteration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common.broadcast_detection import equations

# Slicing operations, which read an array at most once per part.
SLICING = frozenset({"dynamic_slice", "gather", "slice", "dynamic_index_in_dim", "squeeze"})


def iterates(
    call: Callable[..., Any],
    obj: Any,
    points: tuple[Any, Any],
    most: int,
    of_points: bool = False,
) -> bool:
    """Whether a call loops, or reads a matrix of the object, more than ``most`` times; masks and scales are
    read several times by every layer. ``of_points``: count only loops that depend on points, since an
    iteration on weights alone, such as a power iteration, leaves the map exact.
    """
    import jax

    closed = jax.make_jaxpr(partial(call, obj))(*points)
    counted: set[int] | None = None
    if of_points:
        counted = set()
        reach(closed.jaxpr, [True] * len(closed.jaxpr.invars), counted)
    if any(steps > most for steps in loops(closed.jaxpr, counted)):
        return True
    read = readings(closed.jaxpr, counted)
    return any(read[one] > most for one in closed.jaxpr.constvars if one.aval.ndim > 1)


def loops(jaxpr: Any, counted: set[int] | None = None) -> Iterator[float]:
    """The lengths of loops that may be iterations, restricted to ``counted`` ones; infinite if unknown. A
    scan over stacked layers is none.
    """
    for equation in equations(jaxpr):
        if counted is not None and id(equation) not in counted:
            continue
        if equation.primitive.name == "while":
            yield math.inf
        if equation.primitive.name == "scan":
            first = equation.params["num_consts"] + equation.params["num_carry"]
            over = [one.aval for one in equation.invars[first:]]
            if not any(one.ndim > 1 and np.issubdtype(one.dtype, np.floating) for one in over):
                yield equation.params["length"]


def readings(jaxpr: Any, counted: set[int] | None = None) -> Counter[Any]:
    """How often each input of a program is read. A scan counts each step, unless a step reads its own
    slice, or the scan is not ``counted``.
    """
    read: Counter[Any] = Counter()
    for equation in jaxpr.eqns:
        if equation.primitive.name in SLICING:
            continue
        inner, times, whole = _inner(equation)
        if inner is None:
            read.update(one for one in equation.invars if not hasattr(one, "val"))
            continue
        if equation.primitive.name == "scan" and counted is not None:
            times = times if id(equation) in counted else 1
        within = readings(inner, counted)
        given = equation.invars[len(equation.invars) - len(inner.invars) :]
        for place, (outer, own) in enumerate(zip(given, inner.invars, strict=True)):
            if not hasattr(outer, "val"):
                read[outer] += within[own] * (times if place < whole else 1)
    return read


def reach(jaxpr: Any, given: Sequence[bool], found: set[int]) -> list[bool]:
    """Which results depend on the inputs flagged by ``given``; ids of the loop equations that depend on
    them are added to ``found``.
    """
    known = dict(zip(jaxpr.invars, given, strict=True))

    def flag(one: Any) -> bool:
        return not hasattr(one, "val") and known.get(one, False)

    for equation in jaxpr.eqns:
        flags = [flag(one) for one in equation.invars]
        if any(flags) and equation.primitive.name in ("scan", "while"):
            found.add(id(equation))
        known |= zip(equation.outvars, _flags_through_equation(equation, flags, found), strict=True)
    return [flag(one) for one in jaxpr.outvars]


def _flags_through_equation(equation: Any, flags: list[bool], found: set[int]) -> list[bool]:
    """As `reach`, for one equation."""
    name, params, results = equation.primitive.name, equation.params, len(equation.outvars)
    if not any(flags):
        return [False] * results
    if name == "scan":
        consts, carried = params["num_consts"], params["num_carry"]
        held, state, over = (
            flags[:consts],
            flags[consts : consts + carried],
            flags[consts + carried :],
        )
        while True:
            outs = reach(params["jaxpr"].jaxpr, [*held, *state, *over], found)
            later = [one or other for one, other in zip(state, outs[:carried], strict=True)]
            if later == state:
                return [*state, *outs[carried:]]
            state = later
    if name == "while":
        first, second = params["cond_nconsts"], params["body_nconsts"]
        asked, held, state = flags[:first], flags[first : first + second], flags[first + second :]
        while True:
            outs = reach(params["body_jaxpr"].jaxpr, [*held, *state], found)
            stops = reach(params["cond_jaxpr"].jaxpr, [*asked, *state], found)
            later = [any(stops) or one or out for one, out in zip(state, outs, strict=True)]
            if later == state:
                return state
            state = later
    if name == "cond":
        branches = [reach(one.jaxpr, flags[1:], found) for one in params["branches"]]
        return [flags[0] or any(ways) for ways in zip(*branches, strict=True)]
    inner, _, _ = _inner(equation)
    if inner is not None:
        outs = reach(inner, flags[len(flags) - len(inner.invars) :], found)
        if len(outs) == results:
            return outs
    return [True] * results


def _inner(equation: Any) -> tuple[Any, int, int]:
    """The inner program of an equation, its number of runs, and its number of constant inputs; the program
    is None for while loops, whose unknown length `loops` reports.
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
