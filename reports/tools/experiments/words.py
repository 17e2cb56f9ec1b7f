"""How numbers are written on the page."""

from __future__ import annotations

import math
from typing import Any

Row = dict[str, Any]


def number(value: float, digits: int = 3, units: float = 2.0) -> str:
    """So many decimals, or a power of ten where the value is less than so many units of the last of
    them.
    """
    if value == 0 or units * 10.0**-digits <= abs(value) < 1e5:
        return f"{value:.{digits}f}"
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$"


def pm(found: Row, digits: int = 3) -> str:
    """Mean and standard deviation over seeds."""
    return f"{number(found['mean'], digits, 0.5)} ± {number(found['sd'], digits, 0.5)}"


def between(found: Row, digits: int = 3) -> str:
    """The interval of a mean."""
    return f"[{found['low']:+.{digits}f}, {found['high']:+.{digits}f}]"


def table(head: list[str], lines: list[list[str]]) -> str:
    """Markdown; the first column to the left, the others to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def listed(names: list[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def checks(results: Row) -> str:
    """The hard checks of an experiment, and whether they are met."""
    lines = [
        f"- {'met' if check['met'] else '**NOT MET**'}: {check['what']}"
        for check in results["checks"]
    ]
    return "\n".join(["Hard checks:", "", *lines])
