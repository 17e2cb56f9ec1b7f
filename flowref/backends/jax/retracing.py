"""Calls of an object as it was handed over, traced as a user traces them: other calls are made of its
parts, put together anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from flowref.backends.jax.live import Live
from flowref.backends.jax.programs import PAIRED
from flowref.backends.jax.stepping import Stepped
from flowref.backends.jax.trees import fresh
from flowref.model import Array, Mapped


def own(
    live: Live, name: str, x: Array, context: Array | None = None, before: Sequence[int] = ()
) -> Mapped:
    """See `Subject.own`. What a trace leaves in an object is left in one that is no one else's."""
    speak = live.programs.spoken(name)
    obj = fresh(live.given)
    with live.calling():
        points = np.asarray(x, live.dtype)
        given = None if context is None else np.asarray(context, live.dtype)
        for rows in before:
            some = None if given is None else given[:rows]
            jax.make_jaxpr(lambda one, other: speak(obj, one, other))(points[:rows], some)
        traced = Stepped(lambda one, other: speak(obj, one, other), points, given)
        out = traced(None, points, given)
    return Mapped(*out) if name in PAIRED else Mapped(np.asarray(out), None)
