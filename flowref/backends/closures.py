"""Values in the closures of functions."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) for each closure cell of a function; empty cells are skipped."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield name, value
