"""The search for the shape of an event, where an object does not tell it: the first shape that its calls fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TypeVar

from flowref.model import Shape

T = TypeVar("T")
# So many shapes that stretch are tried before the first of them is taken.
ENOUGH = 4


class Fit(IntEnum):
    """How calls fit a shape, best first: as they should; stretching one number of each point over several entries, as
    they do for a smaller event; with a log-det of an odd shape; without a way back.
    """

    WELL, STRETCHED, ODD, ONE_WAY = range(4)


Fits = tuple[Fit, T] | None
Seen = dict[Fit, list[Shape]]


def first_event(shapes: Iterable[Shape], fits: Callable[[Shape, Seen], Fits[T]]) -> T | None:
    """What calls showed at the first shape that they fit well, or else at the first of those that they fit best; None
    where they fit none. ``fits``: how they fit a shape, given those before it, and what they showed.
    """
    seen: Seen = {fit: [] for fit in Fit}
    tried, shown = set[Shape](), dict[Fit, T]()
    for shape in shapes:
        stretched = seen[Fit.STRETCHED]
        if shape in tried or (stretched and (len(shape) != 1 or shape[0] < 2)):
            continue
        if len(stretched) == ENOUGH:
            break
        tried.add(shape)
        if (found := fits(shape, seen)) is None:
            continue
        fit, what = found
        if fit is Fit.WELL:
            return what
        seen[fit].append(shape)
        shown.setdefault(fit, what)
    return shown[min(shown)] if shown else None
