"""Log-densities that take the coordinates of a point as separate arguments, as copulas do."""

from __future__ import annotations

from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import is_context


def by_entries(obj: Any, dense: str, draw: str = "sample") -> bool:
    """Whether a log-density takes coordinates separately: it has as many required arguments as its sampler,
    which has none of them, returns columns.
    """
    asked = signatures.required(obj, dense)
    if len(asked) < 2 or any(map(is_context, asked)) or not callable(getattr(obj, draw, None)):
        return False
    if len(signatures.method_parameters(obj, draw)) > 1:
        return False
    import torch

    try:
        with torch.random.fork_rng(devices=[]):
            drawn = getattr(obj, draw)(3)
            density = getattr(obj, dense)(*drawn.unbind(-1))
    except Exception:  # it needs other arguments
        return False
    return tuple(drawn.shape) == (3, len(asked)) and tuple(density.shape) == (3,)
