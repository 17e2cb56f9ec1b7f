"""Maps that return points of a sphere, with more coordinates than they take."""

from __future__ import annotations

from typing import Any

# How near to each other the lengths of points of a sphere are.
NEAR = 1e-4


def advice(points: Any) -> str:
    """What to do with a map whose images all have one length; empty for any other. ``points``: an array of
    torch or of JAX.
    """
    squares = (points * points).reshape(len(points), -1).sum(-1)
    most = abs(squares).max()
    if len(points) < 2 or not bool((abs(squares - squares[0]) <= NEAR * most).all()):
        return ""
    return ": a map onto a sphere is to be audited in coordinates, with as many numbers out as in"
