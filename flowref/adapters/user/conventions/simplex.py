"""Maps of vectors onto a simplex, and of points of one: one number more comes out or goes in than the others
need. Without it the Jacobian is square, and of full rank.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.onto_simplex import NEAR, excess, with_last, without_last, words
from flowref.adapters.user.conventions.volumes import gaps
from flowref.model import Dialect

# What chooses it where a codomain is declared.
DECLARED = "onto_simplex"
# What chooses it where a domain is.
FROM = "from_simplex"


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
    return excess(gaps(obj, forward, x, context), x.shape[-1])


def opened(
    obj: Any, dialect: Dialect, x: Any, latent: Any, context: Any
) -> tuple[Dialect, Any, str] | None:
    """The dialect of a map of points of a simplex without their last coordinate, and without that of its
    images where these lie on one, too; with its latents and what is said of it. None where it maps to
    neither.
    """
    onto = latent.shape == x.shape and bool(
        (latent > 0).all() and (abs(latent.sum(-1) - 1) <= NEAR).all()
    )
    if len(x.shape) != 2 or not (onto or latent.shape[-1] == x.shape[-1] - 1):
        return None
    forward = partial(of_points, call=dialect.forward, onto=onto)
    less = 0.0 if onto else 0.0 - _beside(obj, forward, without_last(x), context)
    changes: dict[str, Any] = {"forward": partial(forward, less=less)}
    if dialect.inverse is not None:
        changes["inverse"] = partial(to_points, call=dialect.inverse, onto=onto, more=less)
    volume = ", log-det of the volume of the simplex" if less else ""
    said = f"of a simplex{' onto one' if onto else ''}, without the last coordinate{volume}"
    return replace(dialect, **changes), without_last(latent) if onto else latent, said


def of_points(
    obj: Any, x: Any, context: Any = None, *, call: Any, onto: bool, less: float = 0.0
) -> Any:
    """Forward of points with their last coordinate, without that of their images."""
    import torch

    y, ladj = call(obj, with_last(x, torch.cat), context)
    return without_last(y) if onto else y, ladj if ladj is None or not less else ladj - less


def to_points(
    obj: Any, y: Any, context: Any = None, *, call: Any, onto: bool, more: float = 0.0
) -> Any:
    """The way back, without the last coordinate."""
    import torch

    x, ladj = call(obj, with_last(y, torch.cat) if onto else y, context)
    return without_last(x), ladj if ladj is None or not more else ladj + more


def _beside(obj: Any, forward: Any, x: Any, context: Any) -> float:
    """What the log-det of a map from a simplex lacks beside that of all coordinates but the last."""
    return excess([-gap for gap in gaps(obj, forward, x, context)], x.shape[-1])
