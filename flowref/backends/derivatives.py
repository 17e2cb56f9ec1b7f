"""Derivatives of calls in what needs no framework: each framework pulls cotangents of a call back, and all
others but Jacobians come from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flowref.model import Array


class Derivatives(Protocol):
    """What a framework offers of a live object."""

    @property
    def pull(self) -> Callable[..., Any]:
        """``pull(live, call, x, context, values, ladjs, toward, along, only, draws, training)``: autodiff's
        gradient of <value, values> + <log-det, ladjs> of a call, and of the value alone of "log_prob".

        ``toward``: the "x" or the "context", in its shape; or the "parameters" that are trained, an array
        for each, or for ``only`` one of them. ``along``: a direction in the points; then the derivative of
        <gradient, along> in these. ``draws``: with other random numbers; ``training``: in train mode.
        Raises `Unsupported` where the call records no graph.
        """

    @property
    def steps(self) -> Callable[..., Iterable[Array]]:
        """``steps(live, seed, only)``: a direction in the parameters, an array for each."""


def directional_derivative(
    framework: Derivatives,
    live: Any,
    call: str,
    x: Array,
    context: Array | None,
    seed: int,
    weights: Array | None,
    values: Array | None = None,
    only: str = "",
    **how: Any,
) -> float:
    """Autodiff's derivative at t = 0 of <log-det, weights> + <value, values> of a call, and of <log_prob,
    weights>, with the parameters moved by t times a direction; ``how``: further arguments of ``pull``.
    """
    both = (weights, None) if call == "log_prob" else (values, weights)
    gradients = framework.pull(live, call, x, context, *both, "parameters", only=only, **how)
    pairs = zip(gradients, framework.steps(live, seed, only), strict=True)
    return float(sum((gradient * step).sum() for gradient, step in pairs))
