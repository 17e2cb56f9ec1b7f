"""Random points of a set, as an expression of a framework."""

from __future__ import annotations

from flowref.model import Support
from flowref.scripting.names import Unwritable


def drawn_from(support: Support, normal: str, uniform: str) -> str:
    """Return an expression for random points of a set, from those for normal numbers and for
    uniform numbers on the unit interval. Raises: `Unwritable` for sets without a simple one.
    """
    if support.joint or support.kind == "product":
        raise Unwritable("random points of its domain take more than a line")
    if not support.has_end:
        return normal
    low, high = support.low, support.high
    if high == float("inf"):
        return f"{uniform} + {low + 0.5!r}"
    if low == -float("inf"):
        return f"{high - 0.5!r} - {uniform}"
    if (low, high) == (0.0, 1.0):
        return uniform
    return f"{low!r} + {high - low!r} * {uniform}"
