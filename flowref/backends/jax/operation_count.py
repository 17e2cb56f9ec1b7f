"""How many operations a program takes, read off its jaxpr, and the primitives that no table lists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from flowref.backends.jax.behavior import unknown

# What a loop of unknown length is taken to be.
ASSUMED_ITERATIONS = 30


class Counter:
    """How many operations were asked for since the count began."""

    operations = 0
    readings = rows = 0
    rounds = False

    def __init__(self) -> None:
        self.unknown: set[str] = set()


COUNTERS: list[Counter] = []


@contextlib.contextmanager
def counting_operations() -> Iterator[Counter]:
    """Count the operations of the calls that are made inside, as their traces tell."""
    counter = Counter()
    COUNTERS.append(counter)
    try:
        yield counter
    finally:
        COUNTERS.remove(counter)


def count(function: Callable[..., Any], *args: Any) -> None:
    """Count one call."""
    program = jax.make_jaxpr(function)(*args)
    for counter in COUNTERS:
        counter.operations += operations(program)
        counter.unknown |= unlisted(program)


def programs_of(value: Any) -> list[Jaxpr]:
    """The programs inside of one parameter of an equation."""
    if isinstance(value, ClosedJaxpr):
        return [value.jaxpr]
    if isinstance(value, Jaxpr):
        return [value]
    if isinstance(value, tuple | list):
        return [found for entry in value for found in programs_of(entry)]
    return []


def operations(program: ClosedJaxpr | Jaxpr) -> int:
    """How many operations a program takes; of several branches, the first is counted."""
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
    """All equations of a program, at any depth."""
    stack = [program.jaxpr if isinstance(program, ClosedJaxpr) else program]
    while stack:
        for equation in stack.pop().eqns:
            yield equation
            stack += [one for value in equation.params.values() for one in programs_of(value)]


def unlisted(program: ClosedJaxpr | Jaxpr) -> set[str]:
    """The primitives with floating results of which nothing says whether they are rounded."""
    return {one.primitive.name for one in equations(program) if unknown(one)}


def narrow(program: ClosedJaxpr | Jaxpr) -> bool:
    """Whether any result inside of a program is float32: a static question."""
    return any(
        str(getattr(out.aval, "dtype", "")) == "float32"
        for equation in equations(program)
        for out in equation.outvars
    )
