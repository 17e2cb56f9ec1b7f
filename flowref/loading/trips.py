"""What a round trip shows: how dear it is, and whether it iterates."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flowref.backends import Backend
from flowref.model import (
    Array,
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
# What reads its parameters so often in one call may be a solver; it is one if so many times the steps of
# a knob take so many times the operations, and move what comes out by no more than this.
SEVERAL, FINER, MORE, NEARLY = 5, 4, 1.2, 0.1
# An inverse that reads its parameters so much more often than forward does may stop by a rule.
SOME = 2
# An inverse that takes so many times the operations of forward, and reads no parameters more often, iterates.
ITERATED = 8
# Points of which it is asked, as shares of ordinary ones.
SCALES = (1.0, 1e-3)


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
            name, y = "forward", subject.forward(x, context).value
        elif subject.log_prob is not None:
            name = "log_prob"
            subject.log_prob(x, context)
        elif subject.push is not None:
            name = "forward"
            subject.push(x, 0, context)
        elif subject.cdf is not None:
            name = "cdf"
            subject.cdf(x)
        elif subject.dequantize is not None:
            name = "dequantize"
            subject.dequantize(
                np.zeros((3, *subject.event_shape)), np.zeros((3, *subject.event_shape))
            )
        else:
            raise Unsupported("it has neither forward nor log_prob")
    called: tuple[str, ...] = (name,)
    uncalled = ""
    with backend.count_operations() as back:
        if y is not None and subject.inverse is not None:
            if math.prod(y.shape[1:]) <= LARGE:
                called = (name, "inverse")
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


def refinable(subject: Subject, backend: Backend, trip: Trip) -> bool:
    """Whether a map has a knob that lets it take more steps, and comes out nearly the same with these.
    ``subject`` is one that can be ``refined``.
    """
    finer = None if subject.refined is None else subject.refined(FINER)
    if finer is None or finer.forward is None or subject.forward is None:
        return False
    x = draw(subject.domain, (3, *subject.event_shape), np.random.default_rng(1))
    shape = subject.context_shape
    context = None if shape is None else np.random.default_rng(2).standard_normal((3, *shape))
    with backend.count_operations() as counted:
        there = np.asarray(finer.forward(x, context).value, dtype=np.float64)
    here = np.asarray(subject.forward(x, context).value, dtype=np.float64)
    same = here.shape == there.shape and bool(np.isfinite(there).all())
    near = same and np.abs(there - here).max() <= NEARLY * (1 + np.abs(here).max())
    longer = counted.operations > MORE * trip.there or counted.rows > MORE * trip.rows * len(x)
    # A series may be long enough for such weights; but more probes of an estimate are more rows, too.
    differs = trip.read_there >= SEVERAL or bool((there != here).any())
    return bool(near and longer and differs)


def iterating(
    facts: Facts, trip: Trip, has_knob: Callable[[], bool] = lambda: False
) -> tuple[Facts, tuple[str, ...]]:
    """Facts of a user's object with the accuracy that a solver in it is held to where it promises
    none, and what is said of it.

    A map that goes through its coordinates one by one reads each parameter, and runs each operation,
    as often as there are coordinates; an iteration does so many times more, or another number of
    times for another point. An adaptive solver may take fewer steps than there are coordinates: then
    a knob tells (see `refinable`), or a library that it calls.
    """
    times = 2 * math.prod(facts.event_shape) + 8
    solves = trip.read_there > times
    # A quadrature evaluates its integrand at all nodes at once, more than there are coordinates.
    several = trip.read_there >= SEVERAL or trip.rows > max(SEVERAL, math.prod(facts.event_shape))
    if not solves and several and not facts.cost.heavy:
        with contextlib.suppress(Exception):  # then nothing is known of it
            solves = has_knob()
    # What reads them more often for one point than for another goes on until a rule is met; once more
    # may be a branch.
    stops = bool(trip.single) and max(trip.single) - min(trip.single) > 1
    # An iteration for each entry by itself reads no parameters.
    alone = trip.read_back <= 2 * trip.read_there and trip.back > ITERATED * max(1, trip.there)
    searches = (
        stops
        or alone
        or trip.back > times * max(1, trip.there)
        or (trip.read_back > times * max(1, trip.read_there))
    )
    assumed: dict[str, float] = {}
    if solves:
        assumed["log-det-tolerance"] = SOLVED
    if solves or searches:
        assumed["inverse-tolerance"] = FOUND
    assumed = {name: value for name, value in assumed.items() if name not in facts.promises}
    if not assumed:
        return facts, ()
    words = {"log-det-tolerance": "its log-det is integrated step by step,"}
    if trip.read_there < SEVERAL:
        words["log-det-tolerance"] = "it integrates at many nodes at once, and its log-det is"
    if trip.uncalled or "inverse" in trip.called:
        words["inverse-tolerance"] = "its inverse iterates,"
    told = tuple(f"{words[name]} held to {assumed[name]:g}" for name in assumed if name in words)
    flags = {"assumed-accuracy": True} if "log-det-tolerance" in assumed else {}
    return replace(facts, promises={**facts.promises, **assumed, **flags}), told
