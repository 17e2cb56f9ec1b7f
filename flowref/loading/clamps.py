"""The domain of a map that clamps its input where it would be infinite: no one says it, and calls do."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flowref.adapters.common.torch_supports import interval
from flowref.loading.instance import Instance
from flowref.model import Array, Dialect, Facts, Support

# Rows of one call that looks for a bound, and how often the finding is refined.
ROWS, ROUNDS = 33, 10
# How much steeper a map is near a bound that it must not reach than in the middle.
STEEP = 2.0


def clamped(instance: Instance, dialect: Dialect, facts: Facts) -> Support | None:
    """The interval beyond which a map gives one image for all points, where it begins at 0 or nearly
    and ends at 1, nearly there or not at all, and the map is steep at its ends, as a logarithm is; None
    for all others, and where a domain is declared.
    """
    if facts.declared or dialect.forward is None or instance.dtype != "float64":
        return None
    if facts.domain.bounded or facts.normalizer is not None or not facts.event_shape:
        return None

    def images(points: Array) -> Array:
        """The images of events of which all entries are one number, flat."""
        backend = instance.backend
        with backend.sandbox(0, instance.dtype):
            obj = instance.copy()
            backend.set_mode(obj, False)
            shape = (len(points), *facts.event_shape)
            rows = np.broadcast_to(points.reshape(-1, *[1] * len(facts.event_shape)), shape)
            context = None
            if facts.context_shape is not None:
                zeros = np.zeros((len(points), *facts.context_shape))
                context = backend.tensor(zeros, instance.dtype)
            given = backend.tensor(np.ascontiguousarray(rows), instance.dtype)
            value = backend.array(dialect.forward(obj, given, context)[0])  # type: ignore[misc]  # asked before
            return np.asarray(value, dtype=np.float64).reshape(len(points), -1)

    try:
        # Below, above, at either end and in the middle.
        seen = images(np.array([-3.0, -1.0, -0.5, 1.5, 2.0, 9.0, 0.05, 0.1, 0.9, 0.95, 0.5, 0.55]))
        if not np.isfinite(seen).all():
            return None
        middle = np.abs(seen[11] - seen[10])
        low = (np.ptp(seen[:3], axis=0) == 0).all() and _steep(seen[6], seen[7], middle)
        high = (np.ptp(seen[3:6], axis=0) == 0).all() and _steep(seen[8], seen[9], middle)
        if not low:
            return None
        first = _bound(images, -0.5, 0.05, seen[2])
        return interval(first, _bound(images, 1.5, 0.95, seen[3]) if high else math.inf)
    except Exception:  # what it raises is the laws' affair
        return None


def _steep(one: Array, other: Array, middle: Array) -> bool:
    return bool((np.abs(one - other) > STEEP * middle).all() and (middle > 0).all())


def _bound(images: Callable[[Array], Array], outside: float, inside: float, image: Array) -> float:
    """The number nearest to ``inside`` that is mapped as what is outside."""
    for _ in range(ROUNDS):
        points = np.linspace(outside, inside, ROWS)
        same = (images(points) == image).all(1)
        last = int(np.flatnonzero(same)[-1])
        outside, inside = float(points[last]), float(points[min(last + 1, ROWS - 1)])
    return inside
