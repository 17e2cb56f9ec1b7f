"""The numbers of a counterexample in tables: exact, and beside each other where they are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flowref.model import Counterexample
from flowref.reporting.numbers import number, rounded, scalar, shown
from flowref.reporting.text import clean

# Entries of a vector that are shown; all are in the JSON report.
ENTRIES, ROWS = 12, 8
# Oracles, which others are compared with, the most trusted first.
ORACLES = ("autograd", "differences", "base + log-det")


@dataclass(frozen=True)
class Table:
    """``rows``: a name and cells each; ``more``: what was left out, in words."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    more: str = ""


def compared(observed: Mapping[str, Any]) -> Iterator[Table]:
    """What was observed: numbers side by side with their distance from the oracle, vectors entry by
    entry, matrices whole, words as words.
    """
    numbers = {name: scalar(value) for name, value in observed.items()}
    single = {name: value for name, value in numbers.items() if not isinstance(value, list | tuple)}
    if single:
        yield _numbers(single)
    vectors = {name: value for name, value in observed.items() if name not in single}
    flat = {name: value for name, value in vectors.items() if _depth(value) == 1}
    for size in dict.fromkeys(len(value) for value in flat.values()):
        yield _vectors({name: value for name, value in flat.items() if len(value) == size})
    for name, value in vectors.items():
        if name not in flat:
            yield _matrix(name, value)


def _numbers(values: Mapping[str, Any]) -> Table:
    floats = {name: value for name, value in values.items() if isinstance(value, float)}
    oracle = next((name for name in ORACLES if name in floats), "")
    compare = oracle and len(floats) > 1
    rows = []
    for name, value in values.items():
        cells = [number(value) if isinstance(value, float) else clean(str(value))]
        if compare:
            against = isinstance(value, float) and name != oracle and "error" not in name
            cells.append(_signed(value - floats[oracle]) if against else "")
        rows.append((clean(name), tuple(cells)))
    head = ("", "value", f"minus {clean(oracle)}") if compare else ("", "value")
    return Table(head, tuple(rows))


def _vectors(values: Mapping[str, Any]) -> Table:
    size = len(next(iter(values.values())))
    kept = min(size, ENTRIES)
    rows = [
        (clean(name), tuple(_cell(entry) for entry in value[:kept]))
        for name, value in values.items()
    ]
    floats = [value for value in values.values() if all(isinstance(e, float) for e in value)]
    names = list(values)
    if len(floats) == len(values) > 1:
        first, last = floats[0], floats[-1]
        gaps = tuple(_signed(b - a) for a, b in zip(first[:kept], last[:kept], strict=True))
        rows.append((f"{clean(names[-1])} minus {clean(names[0])}", gaps))
    more = f"{size - kept} more entries are in the JSON report" if size > kept else ""
    return Table(("", *(str(index) for index in range(kept))), tuple(rows), more)


def _matrix(name: str, value: Any) -> Table:
    if _depth(value) != 2 or not value or len({len(row) for row in value}) != 1:
        return Table(("", "value"), ((clean(name), (shown(value),)),))
    kept, wide = min(len(value), ROWS), min(len(value[0]), ENTRIES)
    rows = tuple(
        (str(index), tuple(_cell(entry, exact=False) for entry in row[:wide]))
        for index, row in enumerate(value[:kept])
    )
    cut = kept < len(value) or wide < len(value[0])
    more = f"{len(value)} × {len(value[0])}; all of it is in the JSON report" if cut else ""
    return Table((clean(name), *(str(index) for index in range(wide))), rows, more)


def point(case: Counterexample) -> Iterator[Table]:
    """The exact input: rows of x, and of the context."""
    for name, value in (("x", case.x), ("context", case.context)):
        if value is None:
            continue
        if _depth(value) == 2 and value and value[0]:
            rows, width = value[:ROWS], min(len(value[0]), ENTRIES)
            left = len(value) - len(rows), len(value[0]) - width
            more = " and ".join(
                f"{count} more {what}"
                for count, what in zip(left, ("rows", "entries"), strict=True)
                if count
            )
            numbered = len(rows) > 1
            table = tuple(
                (f"{name}[{index}]" if numbered else name, tuple(map(_cell, row[:width])))
                for index, row in enumerate(rows)
            )
            told = f"{more}: in the JSON report" if more else ""
            yield Table(("", *(str(index) for index in range(width))), table, told)
        else:
            yield Table(("", "value"), ((name, (shown(value),)),))


def _cell(value: Any, *, exact: bool = True) -> str:
    if isinstance(value, float) and not exact:
        return rounded(value, 6)
    return clean(number(value))


def _signed(value: float) -> str:
    return "0" if value == 0 else f"{value:+.3g}"


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list | tuple):
        depth += 1
        value = value[0] if value else None
    return depth
