"""Points of a simplex in coordinates of full dimension, for arrays of torch and JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

# Tolerance for sums of a simplex.
NEAR = 1e-4
# Maximal entries for finding the volume that a log-det refers to.
FEW = 64


def onto_simplex(x: Any, latent: Any, declared: bool) -> bool:
    """Whether a batch of vectors was mapped to a simplex, by its values or by declaration."""
    if len(latent.shape) != len(x.shape) or tuple(latent.shape[:-1]) != tuple(x.shape[:-1]):
        return False
    if latent.shape[-1] != x.shape[-1] + 1:
        return False
    return declared or bool((latent > 0).all() and (abs(latent.sum(-1) - 1) <= NEAR).all())


def without_last(y: Any) -> Any:
    """All entries but the last, shifted by the deficit of the sum, so that a wrong last entry shows in the
    others.
    """
    lacking = 1 - y.sum(-1, keepdims=True)
    return y[..., :-1] + lacking * (abs(lacking) > NEAR)


def with_last(y: Any, join: Callable[..., Any]) -> Any:
    """Points of a simplex with the last entry restored. ``join``: concatenates arrays along an axis."""
    return join([y, 1 - y.sum(-1, keepdims=True)], -1)


def excess(gaps: list[float], size: int) -> float:
    r"""The constant by which a log-det onto a simplex of ``size + 1`` entries exceeds that in all
    coordinates but the last: $\tfrac12 \log(n + 1)$ if it refers to the simplex's own area, else 0. Both
    are usual. ``gaps``: the measured excess at some points.
    """
    more = 0.5 * math.log(size + 1)
    return more if gaps and all(abs(gap - more) <= NEAR for gap in gaps) else 0.0


def simplex_words(more: float) -> str:
    """The remark on that constant."""
    volume = ", log-det of the volume of the simplex" if more else ""
    return f"onto a simplex, without its last coordinate{volume}"
