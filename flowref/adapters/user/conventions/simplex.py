"""Maps of vectors onto a simplex: what they return has one number more, which the others tell. Without it the
Jacobian is square.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.onto_simplex import FEW, excess, with_last, without_last, words
from flowref.model import Dialect

# What chooses it where a codomain is declared.
DECLARED = "onto_simplex"


def shortened(obj: Any, dialect: Dialect, x: Any, context: Any) -> tuple[Dialect, str]:
    """The dialect without the last coordinate of the simplex, and what is said of it."""
    forward = partial(first_entries, call=dialect.forward)
    less = surface(obj, forward, x, context)
    changes: dict[str, Any] = {"forward": partial(forward, less=less)}
    if dialect.inverse is not None:
        changes["inverse"] = partial(of_entries, call=dialect.inverse, more=less)
    return replace(dialect, **changes), words(less)


def first_entries(obj: Any, x: Any, context: Any = None, *, call: Any, less: float = 0.0) -> Any:
    """Forward, without the last coordinate."""
    y, ladj = call(obj, x, context)
    return without_last(y), ladj if ladj is None or not less else ladj - less


def of_entries(obj: Any, y: Any, context: Any = None, *, call: Any, more: float = 0.0) -> Any:
    """The way back, of points with their last coordinate."""
    import torch

    x, ladj = call(obj, with_last(y, torch.cat), context)
    return x, ladj if ladj is None or not more else ladj + more


def surface(obj: Any, forward: Any, x: Any, context: Any) -> float:
    """What the log-det counts besides that of all coordinates but the last (see `excess`)."""
    import torch

    size = x.shape[-1]
    if len(x.shape) != 2 or size > FEW:
        return 0.0
    given = None if context is None else context[:1]
    gaps = []
    for row in (0, 1):
        try:
            jacobian = torch.autograd.functional.jacobian(
                lambda point: forward(obj, point[None], given)[0][0], x[row]
            )
            told = forward(obj, x[row : row + 1], given)[1]
            gaps.append(float((told.reshape(-1)[0] - torch.linalg.slogdet(jacobian)[1]).detach()))
        except Exception:  # what it raises is the laws' affair
            return 0.0
    return excess(gaps, size)
