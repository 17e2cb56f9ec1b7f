"""Densities whose own samples lie on a simplex: what they draw tells where their events are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flowref.adapters.user.inquiry import Inquiry
from flowref.model import Array, Facts, Support

# So many samples, and by how much their sums may be off.
ROWS, OFF = 7, 1e-5
SAID = "domain: simplex, on which its samples lie"


def on_a_simplex(inquiry: Inquiry) -> Facts | None:
    """Facts with the shape of samples, and their set, where nothing was declared and all of them are positive and sum
    to one; None of all else.
    """
    dialect, facts = inquiry.dialect, inquiry.facts
    told = facts.event_shape or facts.domain.kind != "real" or facts.context_shape is not None
    if told or dialect.sample is None or dialect.forward is not None:
        return None
    for count in (ROWS, (ROWS,)):
        try:
            drawn = np.asarray(inquiry.backend.array(dialect.sample(inquiry.obj, count, None)))
        except Exception:  # it asks for something else
            continue
        if lies_on_a_simplex(drawn):
            domain = Support.parse("simplex")
            return replace(facts, event_shape=drawn.shape[1:], domain=domain, declared=True)
        if len(drawn) == ROWS:  # so many were asked for, and came
            return None
    return None


def lies_on_a_simplex(drawn: Array) -> bool:
    """Whether rows of several numbers are positive and sum to one."""
    if drawn.ndim < 2 or len(drawn) != ROWS or drawn.shape[-1] < 2:
        return False
    return bool((drawn > 0).all() and np.abs(drawn.sum(-1) - 1).max() < OFF)
