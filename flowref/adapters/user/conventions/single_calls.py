"""Calls that are made once however often they are asked for: an inverse may take a pass for each
coordinate.
"""

from __future__ import annotations

from typing import Any


class Once:
    """Calls of an object at the same points, whose results are kept."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.kept: dict[tuple[Any, int, int], tuple[Any, Any]] = {}

    def __call__(self, call: Any, given: Any, context: Any) -> Any:
        """What a call returns."""
        return self._made(call, given, context, 0)

    def fewer(self, call: Any, given: Any, context: Any) -> Any:
        """What it returns without the first point."""
        return self._made(call, given, context, 1)

    def _made(self, call: Any, given: Any, context: Any, first: int) -> Any:
        key = call, id(given), first
        if key not in self.kept:
            told = None if context is None else context[first:]
            # The points are kept as well, so that no others take their place in memory.
            self.kept[key] = given, call(self.obj, given[first:], told)
        return self.kept[key][1]
