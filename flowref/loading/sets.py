"""Maps of sets, whose members are rows, or whose sets are events if members can be assigned to several."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.names import SETS, normalized_name
from flowref.loading.draft import Draft, Finding
from flowref.model import Dialect

# Rows of a set, rows called alone, and the tolerance for rounding.
ROWS, FEW, SAME = 7, 4, 1e-4
# Members of a set that is an event.
MEMBERS = 5
ROWS_ARE_MEMBERS = "rows are members of one set"
SETS_ARE_EVENTS = "events are sets of members, which {} assigns to their sets"


def members(draft: Draft) -> Finding | None:
    """The finding for a map of sets: it has an argument that assigns rows to sets (one set by default), and
    in eval mode the image of a row depends on the others but not on their order. The dependence alone would
    also be seen in a batch norm with a broken eval mode.
    """
    name = next(
        (one.name for one in signatures.method_parameters(draft.instance.obj, "forward")
         if one.default is None and normalized_name(one.name) in SETS),
        "",
    )  # fmt: skip
    forward, (_, context) = draft.dialect.forward, draft.points
    if not name or context is not None:
        return None
    rng = np.random.default_rng(3)
    x, order = rng.standard_normal((ROWS, *draft.facts.event_shape)), rng.permutation(ROWS)
    try:
        whole, other, few = (
            draft.array(draft.ask(forward, points)[0]) for points in (x, x[order], x[:FEW])
        )
    except Exception:  # reported elsewhere
        return None
    size = SAME * float(np.abs(whole).max())
    if not np.abs(other - whole[order]).max() <= size < np.abs(few - whole[:FEW]).max():
        return None
    alone = {"estimator": False, "batch-statistics": False}
    if (several := _several(draft, name)) is not None:
        event = (MEMBERS, *draft.facts.event_shape)
        shapes = {"event_shape": event, "latent_shape": event, "guessed": ()}
        kept = {**alone, "set": False, "equivariant": "permutation"}
        said = SETS_ARE_EVENTS.format(name)
        return Finding((said,), {"normalizer": None, **shapes}, kept, *several)
    return Finding((ROWS_ARE_MEMBERS,), {"normalizer": None}, {**alone, "set": True})


def _several(draft: Draft, name: str) -> tuple[Dialect, Any] | None:
    """The calling convention in which events are sets, given by the assignment of rows, and images; None if
    it does not work or has no effect, or for other calls than a map without log-det.
    """
    if draft.dialect.offered != ("forward",):
        return None
    forward = partial(method_calls.of_sets, name=name)
    x = np.random.default_rng(4).standard_normal((1, MEMBERS, *draft.facts.event_shape))
    try:
        alone, log_det = draft.ask(draft.dialect.forward, x[0])
        one, assigned = (
            draft.array(draft.ask(partial(forward, another=False), sets)[0])
            for sets in (x, np.concatenate([x, 2 * x]))
        )
        two = draft.ask(forward, np.concatenate([x, 2 * x]))[0]
        merged = draft.ask(draft.dialect.forward, np.concatenate([x[0], 2 * x[0]]))[0]
    except Exception:  # another argument
        return None
    of_default = draft.array(alone)
    if log_det is not None or one[0].shape != of_default.shape:
        return None
    if np.array_equal(assigned.reshape(-1), draft.array(merged).reshape(-1)):
        return None  # an argument that is kept for others' sake
    same = np.abs(one[0] - of_default).max() <= SAME * np.abs(of_default).max()
    return (Dialect(forward=forward), two) if same else None
