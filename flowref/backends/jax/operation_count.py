"""Numbers of operations of a jaxpr, and its primitives without a table entry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from flowref.backends.jax.behavior import unknown

# The assumed length of loops of unknown length.
ASSUMED_ITERATIONS = 30


class Counter:
    """The number of operations of traced calls since the count began."""

    operations = 0
    readings = rows = 0
    rounds = False

    def __init__(self) -> None:
        self.unknown: set[str] = set()


COUNTERS: list[Counter] = []


@contextlib.contextmanager
def counting_operations() -> Iterator[Counter]:
    """Counts the operations of calls inside, from their traces."""
    counter = Counter()
    COUNTERS.append(counter)
    try:
        yield counter
    finally:
        COUNTERS.remove(counter)


def count(function: Callable[..., Any], *args: Any) -> None:
    """Add one call to the active counters."""
    program = jax.make_jaxpr(function)(*args)
    for counter in COUNTERS:
        counter.operations += operations(program)
        counter.unknown |= unlisted(program)


def programs_of(value: Any) -> list[Jaxpr]:
    """The programs in one parameter of an equation."""
    if isinstance(value, ClosedJaxpr):
        return [value.jaxpr]
    if isinstance(value, Jaxpr):
        return [value]
    if isinstance(value, tuple | list):
        return [found for entry in value for found in programs_of(entry)]
    return []


def operations(program: ClosedJaxpr | Jaxpr) -> int:
    """The number of operations of a program; of several branches, the first counts."""
    total = 0
    for equation in (program.jaxpr if isinstance(program, ClosedJaxpr) else program).eqns:
        name = equation.primitive.name
        inner = [one for value in equation.params.values() for one in programs_of(value)]
        times = {"scan": equation.params.get("length", 1), "while": ASSUMED_ITERATIONS}.get(name, 1)
        if name in ("custom_linear_solve", "cond"):
            inner = inner[:1]
        total += times * sum(map(operations, inner)) if inner else 1
    return int(total)


def equations(program: ClosedJaxpr | Jaxpr) -> Iterator[Any]:
    """Yields all equations of a program, at any depth."""
    stack = [program.jaxpr if isinstance(program, ClosedJaxpr) else program]
    while stack:
        for equation in stack.pop().eqns:
            yield equation
            stack += [one for value in equation.params.values() for one in programs_of(value)]


def unlisted(program: ClosedJaxpr | Jaxpr) -> set[str]:
    """The primitives with floating results that are not known to round or not to."""
    return {one.primitive.name for one in equations(program) if unknown(one)}


def narrow(program: ClosedJaxpr | Jaxpr) -> bool:
    """Whether any intermediate result of a program is float32."""
    return any(
        str(getattr(out.aval, "dtype", "")) == "float32"
        for equation in equations(program)
        for out in equation.outvars
    )
