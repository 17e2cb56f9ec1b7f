"""Derivatives of calls that need no framework: each framework offers vector-Jacobian products, and
all other derivatives except Jacobians are computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flowref.model import Array


class Derivatives(Protocol):
    """Vector-Jacobian products and parameter directions of a live object, as a framework offers
    them.
    """

    @property
    def pull(self) -> Callable[..., Any]:
        """``pull(live, call, x, context, values, ladjs, toward, along, only, draws, training)``:
        the gradient by autodiff of <value, values> + <log-det, ladjs> of a call; for
        "log_prob", of <value, values>.

        ``x`` ``(n, *event)``, ``values`` in the shape of the value, ``ladjs`` ``(n,)``. ``toward``:
        "x" or "context", whose gradient has their shape; or "parameters", with one array for each
        trained parameter, or for the one named ``only``. ``along``: a direction in the points; then
        the result is the derivative of <gradient, along> in the points. ``draws``: use other random
        numbers; ``training``: in train mode. Raises `Unsupported` if the call records no graph.
        """

    @property
    def steps(self) -> Callable[..., Iterable[Array]]:
        """``steps(live, seed, only)``: a seeded direction in the parameters, one array in the
        shape of each.
        """


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
    """Returns the derivative by autodiff, at t = 0, of <log-det, weights> + <value, values> of a
    call (of <log_prob, weights> for "log_prob") when the parameters move by t times a seeded
    direction.

    ``x`` ``(n, *event)``, ``weights`` ``(n,)``, ``values`` in the shape of the value; ``how``:
    further arguments of ``pull``.
    """
    both = (weights, None) if call == "log_prob" else (values, weights)
    gradients = framework.pull(live, call, x, context, *both, "parameters", only=only, **how)
    pairs = zip(gradients, framework.steps(live, seed, only), strict=True)
    return float(sum((gradient * step).sum() for gradient, step in pairs))
