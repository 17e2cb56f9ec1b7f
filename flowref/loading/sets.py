"""Maps of sets, whose members are rows."""

from __future__ import annotations

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import SETS, normalized_name
from flowref.loading.draft import Draft, Finding

# Rows of a set, rows called alone, and the tolerance for rounding.
ROWS, FEW, SAME = 7, 4, 1e-4


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
    alone = {"estimator": False, "batch-statistics": False, "set": True}
    return Finding((name,), facts={"normalizer": None}, promises=alone)
