"""Maps of sets, of which each row is a member."""

from __future__ import annotations

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import SETS, normalized_name
from flowref.loading.draft import Draft, Finding

# Rows of a set, those that are looked at by themselves, and what rounding may change.
ROWS, FEW, SAME = 7, 4, 1e-4


def members(draft: Draft) -> Finding | None:
    """What is known of a map of sets: it can be given to which set each row belongs, by default to one; in eval mode
    what a row maps to depends on the others, and not on their order. That alone would say as much of a batch norm
    whose eval mode is broken.
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
    except Exception:  # what cannot be called is spoken of elsewhere
        return None
    size = SAME * float(np.abs(whole).max())
    if not np.abs(other - whole[order]).max() <= size < np.abs(few - whole[:FEW]).max():
        return None
    alone = {"estimator": False, "batch-statistics": False, "set": True}
    return Finding((name,), facts={"normalizer": None}, promises=alone)
