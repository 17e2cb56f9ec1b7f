"""Whether an operation, or one in a JAX program, broadcasts a per-point number over several entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowref.model import Shape


def stretched_over(operands: Sequence[Shape], result: Shape, rows: int) -> bool:
    """Whether an elementwise operation broadcasts an operand with one number per row, of ``rows`` rows,
    over several entries or none.
    """
    if len(result) < 2 or result[0] != rows or result not in operands:
        return False
    return any(
        one != result
        and len(one) == len(result)
        and one[0] == rows
        and all(size in (1, entries) for size, entries in zip(one, result, strict=True))
        for one in operands
    )


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a program, including nested ones."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for one in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def stretches(jaxpr: Any, rows: int) -> bool:
    """Whether an operation of the program broadcasts a number per row over several entries or none."""
    return any(_stretches(equation, rows) for equation in equations(jaxpr))


def _stretches(equation: Any, rows: int) -> bool:
    operands = [tuple(getattr(one.aval, "shape", ())) for one in equation.invars]
    if len(equation.outvars) != 1:
        return False
    result = tuple(getattr(equation.outvars[0].aval, "shape", ()))
    if equation.primitive.name == "broadcast_in_dim":
        axes = equation.params["broadcast_dimensions"]
        if not axes or axes[0] != 0 or operands[0][0] != rows:
            return False
        sizes = dict(zip(axes, operands[0], strict=True))
        operands = [tuple(sizes.get(axis, 1) for axis in range(len(result))), result]
    return stretched_over(operands, result, rows)
