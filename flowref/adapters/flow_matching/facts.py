"""Facts of flow_matching schedulers, paths, manifolds and solvers."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common import moving_frames
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.flow_matching.calls import ACCURACY
from flowref.model import REAL, Facts, Shape, Support

TIMES = Support.parse(moving_frames.TIMES)
# Amplification of solver errors by an expanding field.
SPREAD = 1e3
RISING = {"elementwise": True, "monotone": True}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of an object by its class. Raises `UnknownShape` for a path, torus or solver without ``event_shape``."""
    names = lineage(obj)
    if "Scheduler" in names:
        return Facts((1,), (1,), Support.parse("unit"), promises=RISING)
    if "GeodesicProbPath" in names:
        return in_time(obj, event_shape)
    if not event_shape:
        raise unknown_shape(obj)
    if "FlatTorus" in names:
        angles, turn = Support.parse((-math.pi, math.pi)), Support.parse((0.0, 2 * math.pi))
        return Facts(
            event_shape,
            event_shape,
            angles,
            turn,
            context_shape=event_shape,
            promises={"volume-preserving": True},
        )
    if "ODESolver" in names:
        accuracy = SPREAD * ACCURACY
        promises = {
            "inverse-tolerance": accuracy,
            "log-det-tolerance": accuracy,
            "adaptive-steps": True,
            "double-only": True,
        }
        return Facts(event_shape, event_shape, codomain=REAL, promises=promises)
    return Facts(event_shape, event_shape, codomain=REAL, context_shape=(1,))


def in_time(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a path as a function of time, ``(1,)``, between the scalars of a context, ``(2,)``."""
    return Facts((1,), (1,), TIMES, context_shape=(2,), promises=RISING)
