"""The numbers of a counterexample in tables, with differences where they are comparable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flowref.model import Counterexample
from flowref.reporting.numbers import number, rounded_text, scalar, value_in_brief
from flowref.reporting.text import clean

# The most entries of a vector, and rows, that are shown; all are in the JSON report.
ENTRIES, ROWS = 12, 8
# Oracles that other numbers are compared with, the most trusted first.
ORACLES = ("autograd", "differences", "base + log-det")


@dataclass(frozen=True)
class Table:
    """``rows``: (name, cells) each; ``more``: a note on what was left out."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    more: str = ""


def observed_tables(observed: Mapping[str, Any]) -> Iterator[Table]:
    """Yield tables of the observed values: numbers with their difference from the oracle, vectors
    entry by entry, matrices.
    """
    numbers = {name: scalar(value) for name, value in observed.items()}
    single = {name: value for name, value in numbers.items() if not isinstance(value, list | tuple)}
    if single:
        yield _number_table(single)
    vectors = {name: value for name, value in observed.items() if name not in single}
    flat = {name: value for name, value in vectors.items() if _depth(value) == 1}
    for size in dict.fromkeys(len(value) for value in flat.values()):
        yield _vectors({name: value for name, value in flat.items() if len(value) == size})
    for name, value in vectors.items():
        if name not in flat:
            yield _matrix(name, value)


def _number_table(values: Mapping[str, Any]) -> Table:
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
    """A row per entry, a column per name."""
    names, size = list(values), len(next(iter(values.values())))
    kept = min(size, ENTRIES)
    columns = [[_cell(entry) for entry in value[:kept]] for value in values.values()]
    head = ["", *map(clean, names)]
    # A round trip or two values of one kind have a difference; other columns have none.
    comparable = len(names) == 2 or (len(names) > 2 and f"({names[0]})" in names[-1])
    ends = values[names[0]][:kept], values[names[-1]][:kept]
    if comparable and all(isinstance(entry, float) for end in ends for entry in end):
        columns.append([_signed(b - a) for a, b in zip(*ends, strict=True)])
        head.append("last minus first")
    more = f"{size - kept} more entries are in the JSON report" if size > kept else ""
    rows = [(str(index), cells) for index, cells in enumerate(zip(*columns, strict=True))]
    return Table(tuple(head), tuple(rows), more)


def _matrix(name: str, value: Any) -> Table:
    if _depth(value) != 2 or not value or len({len(row) for row in value}) != 1:
        return Table(("", "value"), ((clean(name), (value_in_brief(value),)),))
    kept, wide = min(len(value), ROWS), min(len(value[0]), ENTRIES)
    rows = tuple(
        (str(index), tuple(_cell(entry, exact=False) for entry in row[:wide]))
        for index, row in enumerate(value[:kept])
    )
    cut = kept < len(value) or wide < len(value[0])
    more = f"{len(value)} × {len(value[0])}; all of it is in the JSON report" if cut else ""
    return Table((clean(name), *(str(index) for index in range(wide))), rows, more)


def point(case: Counterexample) -> str:
    """The exact input as lists that can be pasted, a line per row; long ones are cut."""
    lines = []
    for name, value in (("x", case.x), ("context", case.context)):
        if value is None:
            continue
        rows = value if _depth(value) > 1 and len(value) > 1 else [value]
        texts = [value_in_brief(_single_point(row)) for row in rows[:ROWS]]
        left = f"  # and {len(rows) - ROWS} more rows" if len(rows) > ROWS else ""
        text = texts[0] if len(rows) == 1 else "[" + ",\n     ".join(texts) + "]"
        lines.append(f"{name} = {text}{left}")
    return "\n".join(lines)


def _single_point(row: Any) -> Any:
    alone = isinstance(row, list) and len(row) == 1 and isinstance(row[0], list)
    return row[0] if alone else row


def _cell(value: Any, *, exact: bool = True) -> str:
    if isinstance(value, float) and not exact:
        return rounded_text(value, 6)
    return clean(number(value))


def _signed(value: float) -> str:
    return "0" if value == 0 else "nan" if value != value else f"{value:+.3g}"


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list | tuple):
        depth += 1
        value = value[0] if value else None
    return depth
