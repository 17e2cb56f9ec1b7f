"""The search for an event shape that an object does not state: the first shape at which its calls fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TypeVar

from flowref.model import Shape

T = TypeVar("T")
# Shapes with broadcasting that are tried before the first of them is accepted.
ENOUGH = 4


class Fit(IntEnum):
    """How calls fit a shape, best first: correctly; by broadcasting a per-point number, as for a smaller
    event; with an odd shape of the log-det; without an inverse.
    """

    WELL, STRETCHED, ODD, ONE_WAY = range(4)


Fits = tuple[Fit, T] | None
Seen = dict[Fit, list[Shape]]


def first_event(shapes: Iterable[Shape], fits: Callable[[Shape, Seen], Fits[T]]) -> T | None:
    """The result of calls at the first shape with the best fit; None if no shape fits. ``fits``: the fit of
    a shape, given the results so far, and its result.
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
