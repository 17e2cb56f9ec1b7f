"""What functions close over."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The values that a function encloses, by name. A cell is empty while the function that fills it runs."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield name, value
