"""Numbers and values of a counterexample as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flowref.model import Evidence
from flowref.reporting.text import clean

# Lists of more than SHOWN numbers are cut to FEW numbers with DIGITS digits.
SHOWN, FEW, DIGITS = 24, 4, 5


def number(value: Any) -> str:
    """Return a number with six digits if they are exact, with all digits otherwise.

    >>> number(0.5), number(0.1 + 0.2), number(-0.0), number(3.0)
    ('0.5', '0.30000000000000004', '-0', '3')
    """
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if math.isnan(value) or float(short) == value else repr(value)


def rounded_text(value: float, digits: int = 4) -> str:
    """A number rounded to ``digits`` significant digits."""
    return f"{value:.{digits}g}"


def contrast(values: Sequence[tuple[str, Any]]) -> str:
    """Return named numbers with just enough digits to distinguish the first from those that differ.

    >>> contrast([("got", 1.0000001), ("expected", 1.0)])
    'got 1.0000001, expected 1.0000000'
    """
    singles = [(name, scalar(value)) for name, value in values]
    first, *others = [value for _, value in singles if isinstance(value, float)] or [0.0]
    different = [value for value in others if value != first]
    digits = next(
        (
            d
            for d in range(4, 17)
            if all(rounded_text(value, d) != rounded_text(first, d) for value in different)
        ),
        17,
    )
    shape = f"{{:.{digits}g}}" if digits == 4 else f"{{:#.{digits}g}}"
    return ", ".join(
        f"{clean(name)} {shape.format(value) if isinstance(value, float) else value_in_brief(value)}"
        for name, value in singles
    )


def scalar(value: Any) -> Any:
    """The only number of a nested list, or the value itself."""
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value


def value_in_brief(value: Any) -> str:
    """Return a value of a counterexample; long lists are shortened to a few rounded numbers and a
    count.

    >>> value_in_brief([0.1, 0.30000000000000004]), value_in_brief([[0.0] * 40] * 2)
    ('[0.1, 0.30000000000000004]', '0 in each of 80 entries')
    >>> value_in_brief([1 / 3 + n for n in range(30)])
    '[0.33333, 1.3333, 2.3333, 3.3333, ...] (30 numbers, all in the JSON report)'
    """
    if isinstance(value, str):
        return clean(value)
    total = _number_count(value)
    if total <= SHOWN:
        return _nested_list_text(value, [SHOWN], number)
    flat = list(_flattened_items(value))
    if len(set(map(repr, flat))) == 1:
        return f"{clean(number(flat[0]))} in each of {total} entries"
    return f"{_nested_list_text(value, [FEW], _briefly)} ({total} numbers, all in the JSON report)"


def summed_up(value: Any) -> str:
    """Return a value of a counterexample for a terminal: a few numbers with four digits.

    >>> summed_up([-6.75580924, 17.19878521]), summed_up([1 / 3] * 2 + list(range(7)))
    ('[-6.756, 17.2]', '[0.3333, 0.3333, 0, 1, ...] (9 numbers)')
    """
    total = _number_count(value)
    if isinstance(value, str) or total > SHOWN:
        return value_in_brief(value)
    if total <= 2 * FEW:
        return _nested_list_text(value, [2 * FEW], _shortly)
    return f"{_nested_list_text(value, [FEW], _shortly)} ({total} numbers)"


def _shortly(value: Any) -> str:
    return rounded_text(value) if isinstance(value, float) else number(value)


def _briefly(value: Any) -> str:
    return rounded_text(value, DIGITS) if isinstance(value, float) else number(value)


def _flattened_items(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flattened_items(item)
    else:
        yield value


def _number_count(value: Any) -> int:
    return sum(map(_number_count, value)) if isinstance(value, list | tuple) else 1


def _nested_list_text(value: Any, left: list[int], written: Callable[[Any], str]) -> str:
    """A nested list with at most ``left[0]`` numbers, which is decremented."""
    if not isinstance(value, list | tuple):
        left[0] -= 1
        return clean(written(value))
    parts = []
    for item in value:
        if left[0] <= 0:
            parts.append("...")
            break
        parts.append(_nested_list_text(item, left, written))
    return f"[{', '.join(parts)}]"


def bits(evidence: Evidence) -> str:
    """Return the bits of the format that were lost, and those that rounding explains, as text;
    empty if they are not defined.

    With unit roundoff u: lost = log2(residual / (u scale)), explained = log2(explained / (u
    scale)), in [0, -log2 u].
    """
    whole = round(-math.log2(evidence.unit)) if 0 < evidence.unit < 1 else 0
    floor = evidence.unit * evidence.scale
    if not whole or not math.isfinite(floor) or floor <= 0 or not math.isfinite(evidence.residual):
        return ""

    def count(size: float) -> int:
        ratio = size / floor
        if math.isinf(ratio):
            return whole
        return min(whole, math.ceil(math.log2(ratio))) if ratio > 1 else 0

    lost, explained = count(evidence.residual), count(evidence.explained)
    return f"{lost} of {whole} bits lost; rounding explains {explained}"
