"""A declared constant in log-dets and log-densities: ``?offset=-D*log(256)`` for the volume of an earlier
preprocessing.
"""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls
from flowref.model import Dialect, SpecError

OPERATIONS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


def offset_of(text: str, size: int) -> float:
    """The value of an offset for events of ``size`` entries.

    Raises `SpecError` if the text is no arithmetic of numbers, D and log.
    """
    try:
        return float(_evaluated_offset(ast.parse(text, mode="eval").body, size))
    except (SyntaxError, ValueError, ArithmeticError, TypeError) as error:
        raise SpecError(
            f"offset was given as {text!r}; expected numbers, D (the entries of an event), log(...) "
            "and + - * / **, as in -D*log(256)"
        ) from error


def _evaluated_offset(node: ast.expr, size: int) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id="D"):
            return float(size)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated_offset(operand, size)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluated_offset(operand, size)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return float(
                OPERATIONS[type(op)](_evaluated_offset(left, size), _evaluated_offset(right, size))
            )
        case ast.Call(func=ast.Name(id="log"), args=[one], keywords=[]):
            return math.log(_evaluated_offset(one, size))
    raise ValueError("no arithmetic")


def without(dialect: Dialect, text: str, size: int) -> tuple[Dialect, str]:
    """The dialect with an offset subtracted from log-dets and log-densities, and a remark."""
    offset = offset_of(text, size)
    forward, inverse, log_prob = dialect.forward, dialect.inverse, dialect.log_prob
    dialect = replace(
        dialect,
        forward=forward and partial(method_calls.without_offset, call=forward, offset=offset),
        inverse=inverse and partial(method_calls.without_offset, call=inverse, offset=-offset),
        log_prob=log_prob and partial(method_calls.density_without, call=log_prob, offset=offset),
    )
    which = "log-det counts" if forward is not None else "log_prob counts"
    return dialect, f"{which} {text}, as declared"
