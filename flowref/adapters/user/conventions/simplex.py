"""Maps of vectors onto a simplex: what they return has one number more, which the others tell. Without it the
Jacobian is square.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.onto_simplex import NEAR, without_last
from flowref.model import Dialect

# What chooses it where a codomain is declared.
DECLARED = "onto_simplex"
# Entries up to which the volume that a log-det is of is found out.
FEW = 64


def onto_simplex(x: Any, latent: Any, declared: bool) -> bool:
    """Whether a batch of vectors was mapped to a simplex, by what was returned or by what is declared."""
    if len(latent.shape) != len(x.shape) or tuple(latent.shape[:-1]) != tuple(x.shape[:-1]):
        return False
    if latent.shape[-1] != x.shape[-1] + 1:
        return False
    return declared or bool((latent > 0).all() and ((latent.sum(-1) - 1).abs() <= NEAR).all())


def shortened(obj: Any, dialect: Dialect, x: Any, context: Any) -> tuple[Dialect, str]:
    """The dialect without the last coordinate of the simplex, and what is said of it."""
    forward = partial(first_entries, call=dialect.forward)
    whole = surface(obj, forward, x, context)
    less = 0.5 * math.log(x.shape[-1] + 1) if whole else 0.0
    changes: dict[str, Any] = {"forward": partial(forward, less=less)}
    if dialect.inverse is not None:
        changes["inverse"] = partial(with_last, call=dialect.inverse, more=less)
    volume = ", log-det of the volume of the simplex" if whole else ""
    return replace(dialect, **changes), f"onto a simplex, without its last coordinate{volume}"


def first_entries(obj: Any, x: Any, context: Any = None, *, call: Any, less: float = 0.0) -> Any:
    """Forward, without the last coordinate."""
    y, ladj = call(obj, x, context)
    return without_last(y), ladj if ladj is None or not less else ladj - less


def with_last(obj: Any, y: Any, context: Any = None, *, call: Any, more: float = 0.0) -> Any:
    """The way back, of points with their last coordinate."""
    import torch

    x, ladj = call(obj, torch.cat([y, 1 - y.sum(-1, keepdim=True)], -1), context)
    return x, ladj if ladj is None or not more else ladj + more


def surface(obj: Any, forward: Any, x: Any, context: Any) -> bool:
    """Whether the log-det is that of the volume of the simplex itself, which is the root of the number of its
    corners larger than that of all coordinates but one. Either is usual.
    """
    import torch

    size = x.shape[-1]
    if len(x.shape) != 2 or size > FEW:
        return False
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
            return False
    return all(abs(gap - 0.5 * math.log(size + 1)) <= NEAR for gap in gaps)
