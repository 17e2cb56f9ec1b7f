"""Which of two numbers beside a latent is a log-density of it: what the object's own base gives."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions.readings import is_tensor

# How near a number is that was computed as another was.
SAME = 1e-9
# What the option ?returns= would say.
ORDERS = ("z,log_prior,ladj", "z,ladj,log_prior")


def told_by_base(obj: Any, out: Any, rows: int, entries: int) -> str:
    """What ?returns= would say of a latent with two numbers for each of ``rows`` points, one of which
    is the log-density that the base of the object gives of the latent; empty where it is neither, or
    both.
    """
    if not isinstance(out, (tuple, list)) or len(out) != 3 or not all(map(is_tensor, out)):
        return ""
    if [math.prod(part.shape) for part in out] != [rows * entries, rows, rows]:
        return ""
    try:
        expected = calls.base_log_prob(obj, out[0], None)
    except Exception:  # it has none, or one of other latents
        return ""
    if tuple(expected.shape) != (rows,):
        return ""
    found = [
        order
        for part, order in zip(out[1:], ORDERS, strict=True)
        if bool(((part.reshape(rows) - expected).abs() <= SAME * (1 + expected.abs())).all())
    ]
    return found[0] if len(found) == 1 else ""
