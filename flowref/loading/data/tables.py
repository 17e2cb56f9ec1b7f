"""Tables in files: parquet, and delimited text (csv). A row is a point."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from flowref.loading.data.rows import Rows
from flowref.model import Array, DataError, one_line
from flowref.model.extras import import_optional

SEPARATORS = (",", ";", "\t")


def csv(path: Path) -> Rows:
    """The rows of a text file of numbers separated by commas, semicolons, tabs or spaces; a header line is
    skipped.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = (line for line in file if line.strip())
            first = list(itertools.islice(lines, 2))
            count = len(first) + sum(1 for _ in lines)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({one_line(error, 150)}); give text") from None
    if not first:
        raise DataError(f"{path} has no rows; give at least one point")
    separator = next((sign for sign in SEPARATORS if sign in first[0]), None)
    named = _numbers_in_line(first[0], separator) is None
    numbers = _numbers_in_line(first[-1 if named else 0], separator)
    if numbers is None:
        what = _first_non_numeric_field(first, separator)
        raise DataError(f"{path} has {what} where numbers are expected; leave other columns out")

    def read(rows: Array) -> Array:
        return _read_lines(path, rows + named, separator, len(numbers))

    return Rows(str(path), count - named, (len(numbers),), read)


def _numbers_in_line(line: str, separator: str | None) -> list[float] | None:
    """The numbers of a line, NaN for an empty field; None if a field is no number."""
    try:
        return [float(field) if field.strip() else np.nan for field in line.split(separator)]
    except ValueError:
        return None


def _first_non_numeric_field(lines: list[str], separator: str | None) -> str:
    fields = [field.strip() for field in lines[-1].split(separator)]
    at = next(k for k, field in enumerate(fields) if _numbers_in_line(field, separator) is None)
    names = lines[0].split(separator) if len(lines) > 1 else []
    named = len(names) == len(fields) and _numbers_in_line(names[at], separator) is None
    return repr(fields[at][:60]) + (f" in its column {names[at].strip()!r}" if named else "")


def _read_lines(path: Path, wanted: Array, separator: str | None, width: int) -> Array:
    """The wanted lines as numbers, ``(len(wanted), width)``, read sequentially."""
    found = np.full((len(wanted), width), np.nan)
    place = {int(row): index for index, row in enumerate(wanted)}
    with path.open(encoding="utf-8") as file:
        for row, line in enumerate(line for line in file if line.strip()):
            if row not in place:
                continue
            numbers = _numbers_in_line(line, separator)
            if numbers is None or len(numbers) != width:
                raise DataError(
                    f"{path}: row {row + 1} is {line.strip()[:60]!r}; expected {width} numbers, as "
                    "in the first"
                )
            found[place[row]] = numbers
    return found


def parquet(path: Path) -> Rows:
    """The rows of a parquet file: its numeric columns in order, or one column of lists."""
    reading = import_optional("pyarrow.parquet", "parquet", f"the parquet file {path}", DataError)
    try:
        file = reading.ParquetFile(path, memory_map=True)
        first = next(file.iter_batches(batch_size=1), None)
        groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
    except Exception as error:  # pyarrow's own error classes cannot be imported here
        raise DataError(f"{path} cannot be read ({one_line(error, 150)})") from None
    if first is None:
        raise DataError(f"{path} has no rows; give at least one point")
    shape = _table_values(path, first).shape[1:]
    ends = np.cumsum(groups)

    def read(rows: Array) -> Array:
        parts = []
        for group, end in enumerate(ends):
            begin = end - groups[group]
            inside = rows[(rows >= begin) & (rows < end)] - begin
            if len(inside):
                parts.append(_table_values(path, file.read_row_group(group).take(inside)))
        return np.concatenate(parts)

    return Rows(str(path), int(ends[-1]), shape, read)


def _table_values(path: Path, table: Any) -> Array:
    columns = []
    for name, column in zip(table.schema.names, table.columns, strict=True):
        values = column.to_pylist()
        try:
            numbers = np.array(
                [np.nan if value is None else value for value in values], dtype=np.float64
            )
        except (ValueError, TypeError):
            what = table.schema.field(name).type
            raise DataError(
                f"{path}: the column {name} holds {what}; leave out what are no numbers, and give "
                "lists of one length"
            ) from None
        columns.append(numbers)
    if len({numbers.shape for numbers in columns}) > 1:
        sizes = ", ".join(
            f"{name} {' x '.join(map(str, numbers.shape[1:])) or '1'}"
            for name, numbers in zip(table.schema.names, columns, strict=True)
        )
        raise DataError(
            f"{path} has columns of several sizes ({sizes}); give columns of numbers, or the points as "
            "one column of lists"
        )
    return columns[0] if len(columns) == 1 and columns[0].ndim > 1 else np.stack(columns, axis=1)
