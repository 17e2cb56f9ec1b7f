"""Detect solvers: a log-det that is integrated, or an inverse that is iterated."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from functools import partial

import numpy as np

from flowref.adapters.user.solvers import FOUND, SOLVED, integrates
from flowref.loading.draft import Draft, Finding
from flowref.model import Subject, draw_points

# Parameter reads per call from which on a map may be a solver; it is one if a step count, increased
# by the second factor, increases operations by the third and moves the result by at most the last.
SEVERAL, FINER, MORE, NEARLY = 5, 4, 1.2, 0.1
# Ratio of operations, inverse to forward, from which on an inverse with as few parameter reads
# iterates.
ITERATED = 8


def accuracy(draft: Draft) -> Finding | None:
    """The accuracy for a solver that promises none; None if the map is no solver.

    An autoregressive map reads each parameter as often as there are coordinates; an iteration reads more
    often, or varies with the point. An adaptive solver may take fewer steps than coordinates: then a step
    count that can be refined shows it (see `_has_refinable_steps`), or a solver library that it calls.
    """
    assert draft.rehearsal is not None
    trip, entries = draft.rehearsal.trip, math.prod(draft.facts.event_shape)
    times = 2 * entries + 8
    solves = trip.read_there > times
    # A quadrature evaluates all nodes in one batch, more of them than coordinates.
    several = trip.read_there >= SEVERAL or trip.rows > max(SEVERAL, entries)
    if not solves and several and not draft.facts.cost.heavy:
        with contextlib.suppress(Exception):  # then no knob is known
            promises = {**draft.facts.promises, "assumed-accuracy": True}
            turned = partial(draft.rehearsal.present, replace(draft.facts, promises=promises))
            solves = integrates(draft.instance.obj) or _has_refinable_steps(turned(), draft)
    # Reads that vary with the point come from a stopping rule; a difference of one may be a branch.
    stops = bool(trip.single) and max(trip.single) - min(trip.single) > 1
    # An elementwise iteration reads no parameters.
    alone = trip.read_back <= 2 * trip.read_there and trip.back > ITERATED * max(1, trip.there)
    searches = (
        stops
        or alone
        or trip.back > times * max(1, trip.there)
        or (trip.read_back > times * max(1, trip.read_there))
    )
    promised = draft.facts.promises
    assumed: dict[str, float] = {}
    words = []
    if solves and "log-det-tolerance" not in promised:
        assumed |= {"log-det-tolerance": SOLVED, "assumed-accuracy": True}
        step = "its log-det is integrated step by step,"
        if trip.read_there < SEVERAL:
            step = "it integrates at many nodes at once, and its log-det is"
        words.append(f"{step} held to {SOLVED:g}")
    if (solves or searches) and "inverse-tolerance" not in promised:
        assumed["inverse-tolerance"] = FOUND
        if trip.uncalled or "inverse" in trip.called:
            words.append(f"its inverse iterates, held to {FOUND:g}")
    return Finding(tuple(words), promises=assumed) if assumed else None


def _has_refinable_steps(subject: Subject, draft: Draft) -> bool:
    """Whether more steps are possible and barely change the result. ``subject`` must be refinable."""
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
    # A series may be long enough for small weights; more probes of an estimate mean more rows.
    differs = trip.read_there >= SEVERAL or bool((there != here).any())
    return bool(near and longer and differs)
