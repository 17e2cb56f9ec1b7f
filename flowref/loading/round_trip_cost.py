"""Cost of forward and inverse, and signs that either is iterative."""

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

# Number of entries above which an inverse, which may solve entry by entry, is not called just to
# count.
LARGE = 64
# Ratio of parameter reads, inverse to forward, from which on the inverse may be an iteration.
SOME = 2
# Scales of the points at which reads are counted.
SCALES = (1.0, 1e-3)
# Shares of time at which a process is asked, and how many entries its points have.
TRIED, ENTRIES = np.array([0.3, 0.6]), 4


class Trip(NamedTuple):
    """Counts of ordinary calls: operations of forward and inverse, and how often each reads a parameter."""

    there: int
    back: int
    read_there: int
    read_back: int
    # Parameter reads of the inverse at single points, if counted.
    single: tuple[int, ...] = ()
    # Maximal rows of a matrix product in forward, per point.
    rows: int = 1
    # The calls that were counted.
    called: tuple[str, ...] = ()
    uncalled: str = ""
    # Operations for which it is unknown whether they round.
    unknown: tuple[str, ...] = ()
    # Whether a call rounds to integers.
    rounds: bool = False

    @property
    def conventions(self) -> tuple[str, ...]:
        """The assumption on operations that are unknown to flowref."""
        if not self.unknown:
            return ()
        return (f"unknown to flowref, and assumed to round: {', '.join(self.unknown)}",)

    @property
    def words(self) -> str:
        """The number of operations, in words."""
        there = f"{self.called[0]} takes {self.there} operations"
        if len(self.called) > 1:
            return f"a round trip takes {self.operations} operations"
        return there + f"; {self.uncalled} is not counted" * bool(self.uncalled)

    @property
    def operations(self) -> int:
        """The operations of a round trip."""
        return self.there + self.back


class Rehearsal(NamedTuple):
    """A subject as laws get it, its measured round trip, and a maker of subjects with other facts."""

    subject: Subject
    trip: Trip
    present: Callable[[Facts], Subject]


def round_trip(subject: Subject, backend: Backend) -> Trip:
    """Count the operations of forward (or the first other ability) and inverse at three points."""
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
        "evolution": (TRIED,),
        "moments": (np.ones((len(TRIED), ENTRIES)), TRIED),
        "schedule": (),
        "time_functions": (TRIED,),
        "scalings": (TRIED,),
        "conversions": (*np.ones((2, len(TRIED), ENTRIES)), TRIED),
        "prior": (np.ones((len(TRIED), ENTRIES)), 0),
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
                with contextlib.suppress(Exception):  # exceptions are reported by laws
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
    """Parameter reads of the inverse at single points, at each scale of `SCALES`."""
    for row, scale in itertools.product(range(len(y)), SCALES):
        given = None if context is None else context[row : row + 1]
        with contextlib.suppress(Exception):  # exceptions are reported by laws
            with backend.count_operations() as back:
                subject.inverse(scale * y[row : row + 1], given)  # type: ignore[misc]  # it was called
            yield back.readings
