"""Maps onto and between simplices, without the dependent last coordinate: only then is the Jacobian square
and of full rank.
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

# Internal key for a declared codomain.
DECLARED = "onto_simplex"
# Internal key for a declared domain.
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
    """A call with the last coordinate restored in its input (``given``) and dropped from its value
    (``returned``), and ``less`` subtracted from its log-det.
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
    """The dialect of a map onto a simplex without the last coordinate, and a remark."""
    forward = partial(call_on_simplex, call=dialect.forward, returned=True)
    less = excess(volume_log_det_gaps(obj, forward, x, context), x.shape[-1])
    return _simplex_convention(dialect, less, given=False, returned=True), simplex_words(less)


def opened(
    obj: Any, dialect: Dialect, x: Any, latent: Any, context: Any
) -> tuple[Dialect, Any, str] | None:
    """The dialect of a map of points of a simplex without the last coordinate, also of its images if they
    lie on one; with its latents and a remark. None if it maps to neither.
    """
    onto = latent.shape == x.shape and bool(
        (latent > 0).all() and (abs(latent.sum(-1) - 1) <= NEAR).all()
    )
    if len(x.shape) != 2 or not (onto or latent.shape[-1] == x.shape[-1] - 1):
        return None
    forward, points = partial(call_on_simplex, call=dialect.forward, given=True), without_last(x)
    # The difference between the log-det of a map from a simplex and that in all coordinates but the
    # last.
    lacking = [] if onto else [-gap for gap in volume_log_det_gaps(obj, forward, points, context)]
    less = -excess(lacking, points.shape[-1])
    dialect = _simplex_convention(dialect, less, given=True, returned=onto)
    volume = ", log-det of the volume of the simplex" if less else ""
    said = f"of a simplex{' onto one' if onto else ''}, without the last coordinate{volume}"
    return dialect, without_last(latent) if onto else latent, said
