"""What a round trip takes."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from flowref.backends import Backend
from flowref.model import (
    Array,
    Facts,
    Subject,
    Unsupported,
    draw_points,
)

# Beyond so many coordinates an inverse that solves them one by one is not called for the sake of
# counting.
LARGE = 64
# An inverse that reads its parameters so much more often than forward does may stop by a rule.
SOME = 2
# Points of which it is asked, as shares of ordinary ones.
SCALES = (1.0, 1e-3)
# Shares of time at which a process is asked, and how many entries its points have.
TRIED, ENTRIES = np.array([0.3, 0.6]), 4


class Trip(NamedTuple):
    """What ordinary calls took: operations there and back, and how often a parameter was read."""

    there: int
    back: int
    read_there: int
    read_back: int
    # Readings on the way back from single points, where these were asked for.
    single: tuple[int, ...] = ()
    # The most rows of a product of matrices on the way there, for each point.
    rows: int = 1
    # Which calls these were.
    called: tuple[str, ...] = ()
    uncalled: str = ""
    # Operations of which nothing says whether they round.
    unknown: tuple[str, ...] = ()
    # Whether what was called rounds to whole numbers.
    rounds: bool = False

    @property
    def conventions(self) -> tuple[str, ...]:
        """What is assumed of operations that nobody knows."""
        if not self.unknown:
            return ()
        return (f"unknown to flowref, and taken to round: {', '.join(self.unknown)}",)

    @property
    def words(self) -> str:
        """How many operations which calls took."""
        there = f"{self.called[0]} takes {self.there} operations"
        if len(self.called) > 1:
            return f"a round trip takes {self.operations} operations"
        return there + f"; {self.uncalled} is not counted" * bool(self.uncalled)

    @property
    def operations(self) -> int:
        """The operations of a round trip."""
        return self.there + self.back


class Rehearsal(NamedTuple):
    """A subject as laws will have it, what a round trip of it took, and what makes one of other facts."""

    subject: Subject
    trip: Trip
    present: Callable[[Facts], Subject]


def round_trip(subject: Subject, backend: Backend) -> Trip:
    """Ordinary calls, to see that there is something to audit."""
    rng = np.random.default_rng(1)
    x = draw_points(subject.domain, (3, *subject.event_shape), rng)
    context = (
        None if subject.context_shape is None else rng.standard_normal((3, *subject.context_shape))
    )
    zeros = np.zeros((3, *subject.event_shape))
    inputs: dict[str, tuple[Any, ...]] = {
        "forward": (x, context),
        "log_prob": (x, context),
        "push": (x, 0, context),
        "cdf": (x,),
        "dequantize": (zeros, zeros),
        "rates": (TRIED,),
        "transitions": (TRIED,),
        "moments": (np.ones((len(TRIED), ENTRIES)), TRIED),
        "schedule": (),
        "conversions": (*np.ones((2, len(TRIED), ENTRIES)), TRIED),
    }
    name = next((one for one in inputs if getattr(subject, one) is not None), "")
    if not name:
        raise Unsupported("it has neither forward nor log_prob")
    with backend.count_operations() as there:
        out = getattr(subject, name)(*inputs[name])
    y = out.value if name == "forward" else None
    called: tuple[str, ...] = ("forward" if name == "push" else name,)
    uncalled = ""
    with backend.count_operations() as back:
        if y is not None and subject.inverse is not None:
            if math.prod(y.shape[1:]) <= LARGE:
                called = ("forward", "inverse")
                with contextlib.suppress(Exception):  # what an inverse does is the laws' affair
                    subject.inverse(y + 0.0, context)
            else:
                uncalled = f"inverse, of more than {LARGE} entries,"
    counts = there.operations, back.operations, there.readings, back.readings
    trip = Trip(
        *counts,
        rows=there.rows // len(x),
        called=called,
        uncalled=uncalled,
        unknown=tuple(sorted(there.unknown | back.unknown)),
        rounds=there.rounds,
    )
    if y is None or trip.read_back < SOME * max(1, trip.read_there):
        return trip
    return trip._replace(single=tuple(_readings(subject, backend, y, context)))


def _readings(subject: Subject, backend: Backend, y: Array, context: Array | None) -> Iterator[int]:
    """How often the inverse reads a parameter, from one point after the other, near 0 and at it."""
    for row, scale in itertools.product(range(len(y)), SCALES):
        given = None if context is None else context[row : row + 1]
        with contextlib.suppress(Exception):  # what an inverse does is the laws' affair
            with backend.count_operations() as back:
                subject.inverse(scale * y[row : row + 1], given)  # type: ignore[misc]  # it was called
            yield back.readings
