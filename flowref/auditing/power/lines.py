"""Files of JSON lines, to which long measurements add and from which they go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from flowref.model import ReportError

Record = TypeVar("Record")


def read_lines(path: Path, make: Callable[[dict[str, Any]], Record], what: str) -> list[Record]:
    """The records of a file, one a line; none where there is no file. ``what``: what a line holds.

    Raises: `ReportError` naming the line that holds something else.
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
    """Add a dataclass to a file. Raises `ReportError` where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None
