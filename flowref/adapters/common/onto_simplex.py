"""Points of a simplex in coordinates that fill a set of positive volume, as arrays of torch or of JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

# How near to one the entries of a point of a simplex add up.
NEAR = 1e-4
# Entries up to which the volume that a log-det is of is found out.
FEW = 64


def onto_simplex(x: Any, latent: Any, declared: bool) -> bool:
    """Whether a batch of vectors was mapped to a simplex, by what was returned or by what is declared."""
    if len(latent.shape) != len(x.shape) or tuple(latent.shape[:-1]) != tuple(x.shape[:-1]):
        return False
    if latent.shape[-1] != x.shape[-1] + 1:
        return False
    return declared or bool((latent > 0).all() and (abs(latent.sum(-1) - 1) <= NEAR).all())


def without_last(y: Any) -> Any:
    """All entries but the last; moved by what their sum lacks, so that a last entry that is wrong is seen
    in the others.
    """
    lacking = 1 - y.sum(-1, keepdims=True)
    return y[..., :-1] + lacking * (abs(lacking) > NEAR)


def with_last(y: Any, join: Callable[..., Any]) -> Any:
    """Points of a simplex with the last entry, which the others tell. ``join``: joins arrays along an axis."""
    return join([y, 1 - y.sum(-1, keepdims=True)], -1)


def excess(gaps: list[float], size: int) -> float:
    """What a log-det onto a simplex of ``size + 1`` entries counts besides: where it is that of the volume of
    the simplex itself, the logarithm of the root of the number of its corners; else nothing. Either is
    usual. ``gaps``: by how much it is larger than that of all coordinates but the last, at some points.
    """
    more = 0.5 * math.log(size + 1)
    return more if gaps and all(abs(gap - more) <= NEAR for gap in gaps) else 0.0


def simplex_words(more: float) -> str:
    """What the line of a target says of it."""
    volume = ", log-det of the volume of the simplex" if more else ""
    return f"onto a simplex, without its last coordinate{volume}"
