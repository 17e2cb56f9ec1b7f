"""JSON-lines files of long measurements, which append to them and resume from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from flowref.model import ReportError

Record = TypeVar("Record")


def read_lines(path: Path, make: Callable[[dict[str, Any]], Record], what: str) -> list[Record]:
    """Return the records of a file, one per line; empty without a file. ``what``: a noun for a
    line.

    Raises: `ReportError` naming an invalid line.
    """
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            records.append(make(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise ReportError(
                f"{path}, line {number}, is no {what} ({error}); remove the line, or name another "
                "file"
            ) from None
    return records


def append_line(path: Path, record: Any) -> None:
    """Append a dataclass to a file. Raises: `ReportError` if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None
