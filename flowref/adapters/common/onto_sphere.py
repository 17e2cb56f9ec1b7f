"""Maps to a sphere, with more coordinates than they take."""

from __future__ import annotations

from typing import Any

# Tolerance for equal norms.
NEAR = 1e-4


def advice(points: Any) -> str:
    """A hint for a map whose images ``(n, d)`` all have one norm; else empty."""
    squares = (points * points).reshape(len(points), -1).sum(-1)
    most = abs(squares).max()
    if len(points) < 2 or not bool((abs(squares - squares[0]) <= NEAR * most).all()):
        return ""
    return ": a map onto a sphere is to be audited in coordinates, with as many numbers out as in"
