"""A running log-density from which a layer should subtract, and to which it adds both ways: either it
is wrong, or the name is, and nobody but its author knows.
"""

from __future__ import annotations

from typing import Any

from flowref.adapters.user.conventions.call_forms import Way, running_words
from flowref.model import Ambiguous, Dialect

ADDED_BOTH_WAYS = (
    "it adds its log-det to {} both ways: that is a running log-det of another name (?running=add), or a running "
    "log-density with the wrong sign (?running=subtract)"
)
# Entries up to which a Jacobian is made, its step, what counts as no volume, and how near is the same.
ENTRIES, STEP, NONE, SAME = 64, 1e-4, 0.05, 1e-3


def refuse_added(obj: Any, dialect: Dialect, way: Way, x: Any, z: Any, context: Any) -> None:
    """Raise `Ambiguous` where what both directions tell as their log-det, the running argument taken
    for a log-density, is that of the other sign, as differences have it.
    """
    if x[0].numel() > ENTRIES:
        return
    try:
        added = all(
            _negates_log_det(obj, call, at, context)
            for call, at in ((dialect.forward, x), (dialect.inverse, z))
        )
    except Exception:  # what it raises is the laws' affair
        return
    if added:
        name = running_words(obj, way).partition("(")[2].partition(")")[0]
        raise Ambiguous(ADDED_BOTH_WAYS.format(name))


def _negates_log_det(obj: Any, call: Any, points: Any, context: Any) -> bool:
    """Whether a call tells minus the log-det at its first points."""
    import torch

    point, given = points[:1], None if context is None else context[:1]
    size = point[0].numel()
    moves = STEP * torch.eye(size, dtype=point.dtype).reshape(size, *point.shape[1:])
    rows = torch.cat([point + moves, point - moves])
    contexts = None if given is None else given.expand(len(rows), *given.shape[1:])
    with torch.no_grad():
        value = call(obj, rows, contexts)[0].reshape(len(rows), -1)
        told = float(call(obj, point, given)[1].reshape(-1)[0])
    found = float(torch.linalg.slogdet((value[:size] - value[size:]).T / (2 * STEP))[1])
    return abs(found) > NONE and abs(told + found) <= SAME * (1 + abs(found))
