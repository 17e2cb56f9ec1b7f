"""Whether a map is a solver: its log-det is integrated, or its inverse found, step by step."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from functools import partial

import numpy as np

from flowref.adapters.user.solvers import FOUND, SOLVED, integrates
from flowref.loading.draft import Draft, Finding
from flowref.model import Subject, draw_points

# What reads its parameters so often in one call may be a solver; it is one if so many times the steps of
# a knob take so many times the operations, and move what comes out by no more than this.
SEVERAL, FINER, MORE, NEARLY = 5, 4, 1.2, 0.1
# An inverse that takes so many times the operations of forward, and reads no parameters more often, iterates.
ITERATED = 8


def accuracy(draft: Draft) -> Finding | None:
    """The accuracy that a solver is held to where it promises none.

    A map that goes through its coordinates one by one reads each parameter, and runs each operation,
    as often as there are coordinates; an iteration does so many times more, or another number of
    times for another point. An adaptive solver may take fewer steps than there are coordinates: then
    a knob tells (see `_refinable`), or a library that it calls.
    """
    assert draft.rehearsal is not None
    trip, entries = draft.rehearsal.trip, math.prod(draft.facts.event_shape)
    times = 2 * entries + 8
    solves = trip.read_there > times
    # A quadrature evaluates its integrand at all nodes at once, more than there are coordinates.
    several = trip.read_there >= SEVERAL or trip.rows > max(SEVERAL, entries)
    if not solves and several and not draft.facts.cost.heavy:
        with contextlib.suppress(Exception):  # then nothing is known of it
            promises = {**draft.facts.promises, "assumed-accuracy": True}
            turned = partial(draft.rehearsal.present, replace(draft.facts, promises=promises))
            solves = integrates(draft.instance.obj) or _refinable(turned(), draft)
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
    told = draft.facts.promises
    assumed: dict[str, float] = {}
    words = []
    if solves and "log-det-tolerance" not in told:
        assumed |= {"log-det-tolerance": SOLVED, "assumed-accuracy": True}
        step = "its log-det is integrated step by step,"
        if trip.read_there < SEVERAL:
            step = "it integrates at many nodes at once, and its log-det is"
        words.append(f"{step} held to {SOLVED:g}")
    if (solves or searches) and "inverse-tolerance" not in told:
        assumed["inverse-tolerance"] = FOUND
        if trip.uncalled or "inverse" in trip.called:
            words.append(f"its inverse iterates, held to {FOUND:g}")
    return Finding(tuple(words), promises=assumed) if assumed else None


def _refinable(subject: Subject, draft: Draft) -> bool:
    """Whether a map has a knob that lets it take more steps, and comes out nearly the same with these.
    ``subject`` is one that can be ``refined``.
    """
    assert draft.rehearsal is not None
    trip, backend = draft.rehearsal.trip, draft.instance.backend
    finer = None if subject.refined is None else subject.refined(FINER)
    if finer is None or finer.forward is None or subject.forward is None:
        return False
    x = draw_points(subject.domain, (3, *subject.event_shape), np.random.default_rng(1))
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
