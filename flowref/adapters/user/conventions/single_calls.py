"""Memoized calls: an inverse may take a pass per coordinate."""

from __future__ import annotations

from typing import Any


class Once:
    """Calls of an object at fixed points, with cached results."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.kept: dict[tuple[Any, int, int], tuple[Any, Any]] = {}

    def __call__(self, call: Any, given: Any, context: Any) -> Any:
        """The cached result of a call."""
        return self._made(call, given, context, 0)

    def fewer(self, call: Any, given: Any, context: Any) -> Any:
        """The cached result without the first point."""
        return self._made(call, given, context, 1)

    def _made(self, call: Any, given: Any, context: Any, first: int) -> Any:
        key = call, id(given), first
        if key not in self.kept:
            given_context = None if context is None else context[first:]
            # Keeping the points keeps their ids unique.
            self.kept[key] = given, call(self.obj, given[first:], given_context)
        return self.kept[key][1]
