"""Running log-densities, from which a layer should subtract its log-det, with additions in both directions:
either the sign is wrong, or the name.
"""

from __future__ import annotations

from typing import Any

from flowref.adapters.user.conventions.call_forms import CallForm, running_words
from flowref.model import Ambiguous, Dialect

ADDED_BOTH_WAYS = (
    "it adds its log-det to {} both ways: that is a running log-det of another name (?running=add), or a running "
    "log-density with the wrong sign (?running=subtract)"
)
# Maximal entries for a Jacobian, the step of differences, the threshold of zero volume, and the
# tolerance.
ENTRIES, STEP, NONE, SAME = 64, 1e-4, 0.05, 1e-3


def refuse_added(obj: Any, dialect: Dialect, way: CallForm, x: Any, z: Any, context: Any) -> None:
    """Raise `Ambiguous` if the log-dets of both directions, with the running argument read as a
    log-density, are the negatives of those by finite differences.
    """
    if x[0].numel() > ENTRIES:
        return
    try:
        added = all(
            _negates_log_det(obj, call, at, context)
            for call, at in ((dialect.forward, x), (dialect.inverse, z))
        )
    except Exception:  # exceptions are reported by laws
        return
    if added:
        name = running_words(obj, way).partition("(")[2].partition(")")[0]
        raise Ambiguous(ADDED_BOTH_WAYS.format(name))


def _negates_log_det(obj: Any, call: Any, points: Any, context: Any) -> bool:
    import torch

    point, given = points[:1], None if context is None else context[:1]
    size = point[0].numel()
    moves = STEP * torch.eye(size, dtype=point.dtype).reshape(size, *point.shape[1:])
    rows = torch.cat([point + moves, point - moves])
    contexts = None if given is None else given.expand(len(rows), *given.shape[1:])
    with torch.no_grad():
        value = call(obj, rows, contexts)[0].reshape(len(rows), -1)
        ladj = float(call(obj, point, given)[1].reshape(-1)[0])
    found = float(torch.linalg.slogdet((value[:size] - value[size:]).T / (2 * STEP))[1])
    return abs(found) > NONE and abs(ladj + found) <= SAME * (1 + abs(found))
