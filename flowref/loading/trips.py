"""What a round trip shows: how dear it is, and whether it iterates."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flowref.backends import Backend
from flowref.model import (
    Facts,
    Subject,
    Unsupported,
    draw,
)

# Beyond so many coordinates an inverse that solves them one by one is not called for the sake of
# counting.
LARGE = 64
# What the inverse and the log-det of a solver are held to where nothing is promised of them.
FOUND, SOLVED = 1e-5, 1e-4


class Trip(NamedTuple):
    """What ordinary calls took: operations there and back, and how often a parameter was read."""

    there: int
    back: int
    read_there: int
    read_back: int

    @property
    def operations(self) -> int:
        """The operations of a round trip."""
        return self.there + self.back


def round_trip(subject: Subject, backend: Backend) -> Trip:
    """Ordinary calls, to see that there is something to audit."""
    rng = np.random.default_rng(1)
    x = draw(subject.domain, (3, *subject.event_shape), rng)
    context = (
        None if subject.context_shape is None else rng.standard_normal((3, *subject.context_shape))
    )
    y = None
    with backend.count_operations() as there:
        if subject.forward is not None:
            y = subject.forward(x, context).value
        elif subject.log_prob is not None:
            subject.log_prob(x, context)
        elif subject.push is not None:
            subject.push(x, 0, context)
        elif subject.cdf is not None:
            subject.cdf(x)
        elif subject.dequantize is not None:
            subject.dequantize(
                np.zeros((3, *subject.event_shape)), np.zeros((3, *subject.event_shape))
            )
        else:
            raise Unsupported("it has neither forward nor log_prob")
    with backend.count_operations() as back:
        if y is not None and subject.inverse is not None and math.prod(y.shape[1:]) <= LARGE:
            with contextlib.suppress(Exception):  # what an inverse does is the laws' affair
                subject.inverse(y + 0.0, context)
    return Trip(there.operations, back.operations, there.readings, back.readings)


def iterating(facts: Facts, trip: Trip) -> tuple[Facts, tuple[str, ...]]:
    """Facts of a user's object with the accuracy that a solver in it is held to where it promises
    none, and what is said of it.

    A map that goes through its coordinates one by one reads each parameter, and runs each operation,
    as often as there are coordinates; an iteration does so many times more.
    """
    times = 2 * math.prod(facts.event_shape) + 8
    solves = trip.read_there > times
    searches = trip.back > times * max(1, trip.there) or (
        trip.read_back > times * max(1, trip.read_there)
    )
    assumed: dict[str, float] = {}
    if solves:
        assumed["log-det-tolerance"] = SOLVED
    if solves or searches:
        assumed["inverse-tolerance"] = FOUND
    assumed = {name: value for name, value in assumed.items() if name not in facts.promises}
    if not assumed:
        return facts, ()
    words = {
        "inverse-tolerance": "its inverse iterates",
        "log-det-tolerance": "its log-det is integrated step by step",
    }
    told = tuple(f"{words[name]}, held to {value:g}" for name, value in assumed.items())
    flags = {"assumed-accuracy": True} if "log-det-tolerance" in assumed else {}
    return replace(facts, promises={**facts.promises, **assumed, **flags}), told
