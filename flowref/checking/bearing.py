"""Whether a heavy object is still a bijection in this precision after its parameters were moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref import loading
from flowref.model import Condition, Subject, Target, draw
from flowref.model.target import History

# What comes back is as near as this, relative to 1 + |x|, and images are no larger.
RETURNED, LARGEST = 1e-3, 1e6
# Objects that were asked about.
KEPT = 8
_KNOWN: dict[tuple[Target, float, History], tuple[Any, bool]] = {}


def bears(target: Target, scale: float, history: History = "warm") -> bool:
    """Whether an ordinary point has an image of ordinary size after the parameters were moved so far,
    and comes back from it. Asked once of an object.
    """
    recipe, key = loading.recipe_of(target), (target, scale, history)
    if key not in _KNOWN or _KNOWN[key][0] is not recipe:  # a file may have changed
        while len(_KNOWN) >= KEPT:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = recipe, _bears(target, Condition(scale=scale, history=history))
    return _KNOWN[key][1]


def _bears(target: Target, condition: Condition) -> bool:
    try:
        return returns(loading.load(target, condition))
    except Exception:  # it cannot be built or called so
        return False


def returns(subject: Subject) -> bool:
    """Whether a point of the domain comes back; where there is no way back, whether it has an image of
    ordinary size. A subject that has no map bears anything.
    """
    forward, inverse = subject.forward, subject.inverse
    if forward is None:
        return True
    x = draw(subject.domain, (1, *subject.event_shape), np.random.default_rng(3))
    context = None
    if subject.context_shape is not None:
        context = np.zeros((1, *subject.context_shape))
    image = np.asarray(forward(x, context).value, dtype=np.float64)
    if not (np.abs(image) <= LARGEST).all():  # nan is not
        return False
    if inverse is None or subject.cost.of("inverse").repeats:
        return True
    back = np.asarray(inverse(image, context).value, dtype=np.float64)
    if back.shape != x.shape:
        return True  # other laws say so
    return bool((np.abs(back - x) <= RETURNED * (1 + np.abs(x))).all())
