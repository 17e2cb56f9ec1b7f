"""Whether an operation stretches one number of each point over several of its entries."""

from __future__ import annotations

from collections.abc import Sequence

from flowref.model import Shape


def stretched_over(operands: Sequence[Shape], result: Shape, rows: int) -> bool:
    """Whether an operation entry by entry takes one number of each of ``rows`` points for several, or
    for none.
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
