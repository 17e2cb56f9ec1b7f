"""The parts of a composite object, and compositions of them, for every framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowref.model import Dialect, TargetError, Unsupported


def part_at(
    name: str,
    obj: Any,
    dialect: Dialect,
    path: Sequence[int],
    resolve: Callable[[Any], Dialect | None],
) -> tuple[str, Any, Dialect]:
    """Returns (name, object, dialect) of the part at a path of indices; ``resolve`` gives the
    dialect of a part, or None to inherit. Raises `TargetError` if there is no such part.
    """
    for index in path:
        listed = dialect.listed(obj)
        if index >= len(listed):
            raise TargetError(f"{name} has {len(listed)} parts; part {index} was asked for")
        label, obj = listed[index]
        name, dialect = f"{name}/{label}", resolve(obj) or dialect
    return name, obj, dialect


def composed_object(expression: Any, obj: Any, parts: Sequence[Any], dialect: Dialect) -> Any:
    """Builds the object of an expression: a part's index, "self", ("chain", ...) or ("inverse",
    e); see `Subject.arrange`. Raises `Unsupported` if the library has no such combinator.
    """
    if expression == "self":
        return obj
    if isinstance(expression, int):
        return parts[expression]
    kind, *operands = expression
    built = [composed_object(operand, obj, parts, dialect) for operand in operands]
    combine = dialect.chain if kind == "chain" else dialect.invert
    if combine is None:
        raise Unsupported(f"its library offers no {kind}")
    return combine(built) if kind == "chain" else combine(built[0])
