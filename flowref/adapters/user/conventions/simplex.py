"""Maps of vectors onto a simplex, and of points of one: one number more comes out or goes in than the others
need. Without it the Jacobian is square, and of full rank.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.onto_simplex import (
    NEAR,
    excess,
    simplex_words,
    with_last,
    without_last,
)
from flowref.adapters.user.conventions.volumes import volume_log_det_gaps
from flowref.model import Dialect

# What chooses it where a codomain is declared.
DECLARED = "onto_simplex"
# What chooses it where a domain is.
FROM = "from_simplex"


def call_on_simplex(
    obj: Any,
    x: Any,
    context: Any = None,
    *,
    call: Any,
    given: bool = False,
    returned: bool = False,
    less: float = 0.0,
) -> Any:
    """A call of points of a simplex without their last coordinate, where it is ``given`` or has ``returned`` such, and
    of a log-det that counts so much ``less``.
    """
    import torch

    y, ladj = call(obj, with_last(x, torch.cat) if given else x, context)
    return without_last(y) if returned else y, ladj if ladj is None or not less else ladj - less


def _simplex_convention(dialect: Dialect, less: float, given: bool, returned: bool) -> Dialect:
    """The dialect of a map of, or onto, a simplex."""
    ends = {"given": given, "returned": returned}, {"given": returned, "returned": given}
    changes: dict[str, Any] = {
        name: partial(call_on_simplex, call=call, less=counted, **sides)
        for name, sides, counted in zip(("forward", "inverse"), ends, (less, -less), strict=True)
        if (call := getattr(dialect, name)) is not None
    }
    return replace(dialect, **changes)


def shortened(obj: Any, dialect: Dialect, x: Any, context: Any) -> tuple[Dialect, str]:
    """The dialect without the last coordinate of the simplex, and what is said of it."""
    forward = partial(call_on_simplex, call=dialect.forward, returned=True)
    less = excess(volume_log_det_gaps(obj, forward, x, context), x.shape[-1])
    return _simplex_convention(dialect, less, given=False, returned=True), simplex_words(less)


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
    forward, points = partial(call_on_simplex, call=dialect.forward, given=True), without_last(x)
    # What the log-det of a map from a simplex lacks beside that of all coordinates but the last.
    lacking = [] if onto else [-gap for gap in volume_log_det_gaps(obj, forward, points, context)]
    less = -excess(lacking, points.shape[-1])
    dialect = _simplex_convention(dialect, less, given=True, returned=onto)
    volume = ", log-det of the volume of the simplex" if less else ""
    said = f"of a simplex{' onto one' if onto else ''}, without the last coordinate{volume}"
    return dialect, without_last(latent) if onto else latent, said
