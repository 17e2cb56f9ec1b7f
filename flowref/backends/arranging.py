"""What combines the parts of an object, whatever framework they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.model import Dialect, Unsupported


def arranged(expression: Any, obj: Any, parts: Sequence[Any], dialect: Dialect) -> Any:
    """The object that an expression denotes: a part's index, "self", ("chain", ...) or ("inverse",
    e); see `Subject.arrange`.
    """
    if expression == "self":
        return obj
    if isinstance(expression, int):
        return parts[expression]
    kind, *operands = expression
    built = [arranged(operand, obj, parts, dialect) for operand in operands]
    combine = dialect.chain if kind == "chain" else dialect.invert
    if combine is None:
        raise Unsupported(f"its library offers no {kind}")
    return combine(built) if kind == "chain" else combine(built[0])
