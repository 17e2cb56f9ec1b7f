"""The largest parameter perturbation at which an expensive object can still be judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowref import loading
from flowref.model import Condition, Subject, Target, draw_points
from flowref.model.target import History

# Tolerance of the round trip relative to 1 + |x|, and the largest image.
RETURNED, LARGEST = 1e-3, 1e6
# The logarithm of an image grows linearly with the perturbation, by the layers' factors. Perturbations
# predicted to exceed this multiple of log(LARGEST) are skipped.
HOPELESS = 2.0
# An image that overflows is at least this large.
ENORMOUS = 1e308
# Size of the cache, in objects.
KEPT = 8
_KNOWN: dict[tuple[Target, tuple[float, ...], History], tuple[Any, float]] = {}


def bearable(target: Target, scales: Sequence[float], history: History = "warm") -> float:
    """Return the first of these perturbations at which an ordinary point has an image of ordinary
    size and returns from it; else the first with such an image, since an inverse that misses by far
    at any perturbation is not rounding; 0 if there is none. Cached per object.
    """
    recipe, key = loading.recipe_of(target), (target, tuple(scales), history)
    if key not in _KNOWN or _KNOWN[key][0] is not recipe:  # a file may have changed
        while len(_KNOWN) >= KEPT:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = recipe, _bearable(target, scales, history)
    return _KNOWN[key][1]


def _bearable(target: Target, scales: Sequence[float], history: History) -> float:
    if history != "warm":  # what fails in the warm state is not tried again
        most = bearable(target, scales)
        scales = [scale for scale in scales if scale <= most]
    known: dict[float, tuple[float, bool]] = {}
    imaged, growth = 0.0, 0.0

    def tried(scale: float) -> tuple[float, bool]:
        if scale not in known:
            try:
                condition = Condition(scale=scale, history=history)
                known[scale] = image_size_and_invertibility(loading.load(target, condition))
            except Exception:  # it cannot be built or called so
                known[scale] = math.nan, False
        return known[scale]

    for scale in scales:
        if growth * scale > HOPELESS * math.log(LARGEST):
            continue
        size, back = tried(scale)
        if size <= LARGEST and back:
            return scale
        if size <= LARGEST:
            imaged = imaged or scale
        if size > LARGEST:
            growth = math.log(min(size, ENORMOUS)) / scale
        elif (
            math.isnan(size) and not tried(min(scales))[0] <= LARGEST
        ):  # no growth rate can be inferred
            return imaged
    return imaged


def image_size_and_invertibility(subject: Subject) -> tuple[float, bool]:
    """Return the largest entry of the image of one point of the domain, and whether the inverse
    returns the point; True if the inverse is missing or iterative. ``(0, True)`` for a subject
    without a map.
    """
    forward, inverse = subject.forward, subject.inverse
    if forward is None:
        return 0.0, True
    x = draw_points(subject.domain, (1, *subject.event_shape), np.random.default_rng(3))
    context = None
    if subject.context_shape is not None:
        context = np.zeros((1, *subject.context_shape))
    image = np.asarray(forward(x, context).value, dtype=np.float64)
    size = float(np.abs(image).max(initial=0.0))
    if not size <= LARGEST:  # nan is not
        return size, False
    if inverse is None or subject.cost.of("inverse").repeats:
        return size, True
    try:
        back = np.asarray(inverse(image, context).value, dtype=np.float64)
    except Exception:  # round-trip laws report it
        return size, False
    if back.shape != x.shape:
        return size, False
    return size, bool((np.abs(back - x) <= RETURNED * (1 + np.abs(x))).all())
