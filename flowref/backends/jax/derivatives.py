"""Derivatives of calls: in the input by forward and by reverse mode, and along a direction in the
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.live import Live
from flowref.model import Array, Mapped, Unsupported, derive, seed_of

Pair = Callable[..., tuple[Any, Any]]


def pushed(pair: Pair) -> Callable[..., Any]:
    """``(leaves, x, context)`` -> Jacobians, ``(batch, outputs, inputs)``: each unit vector is pushed
    through all rows at once; where a custom rule has no forward mode, they are pulled back.
    """

    def run(leaves: Any, x: Any, context: Any) -> Any:
        def value(points: Any) -> Any:
            return pair(leaves, points, context)[0]

        units = jnp.eye(math.prod(x.shape[1:]), dtype=x.dtype).reshape(-1, *x.shape[1:])
        try:
            columns = jax.vmap(
                lambda unit: jax.jvp(value, (x,), (jnp.broadcast_to(unit, x.shape),))[1]
            )(units)
            return jnp.moveaxis(columns.reshape(len(units), len(x), -1), 0, -1)
        except TypeError:
            image, pull = jax.vjp(value, x)
            size = math.prod(image.shape[1:])
            outputs = jnp.eye(size, dtype=image.dtype).reshape(-1, *image.shape[1:])
            rows = jax.vmap(lambda unit: pull(jnp.broadcast_to(unit, image.shape))[0])(outputs)
            return jnp.moveaxis(rows.reshape(len(outputs), len(x), -1), 0, 1)

    return run


def total(pair: Pair) -> Callable[..., Any]:
    """``(leaves, x, context, value weights, log-det weights)`` -> the weighted sum of both."""

    def run(leaves: Any, x: Any, context: Any, values: Any, ladjs: Any) -> Any:
        value, ladj = pair(leaves, x, context)
        summed = jnp.zeros((), x.dtype)
        if values is not None:
            summed += (value * values.reshape(value.shape)).sum()
        if ladj is not None and ladjs is not None:
            summed += (ladj.reshape(len(x), -1).sum(1) * ladjs.reshape(-1)).sum()
        return summed

    return run


def pulled(pair: Pair) -> Callable[..., Any]:
    """The same -> its gradient in x."""
    return jax.grad(total(pair), argnums=1)


def curved(pair: Pair) -> Callable[..., Any]:
    """The same and a direction -> the derivative of <gradient, direction> in x."""
    gradient = pulled(pair)

    def run(leaves: Any, x: Any, context: Any, values: Any, ladjs: Any, along: Any) -> Any:
        def component(points: Any) -> Any:
            return (gradient(leaves, points, context, values, ladjs) * along).sum()

        return jax.grad(component)(x)

    return run


DERIVED: dict[str, Callable[[Pair], Callable[..., Any]]] = {
    "jacobian": pushed,
    "vjp": pulled,
    "curvature": curved,
}


def jacobian(live: Live, name: str, x: Array, context: Array | None = None) -> Array:
    """See `Subject.jacobian`."""
    return np.asarray(live.evaluate(f"jacobian {name}", x, context))


def _weights(live: Live, weights: Array | None) -> Array | None:
    return None if weights is None else np.asarray(weights, live.dtype)


def vjp(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> Array:
    """See `Subject.vjp`."""
    both = _weights(live, value_cotangent), _weights(live, ladj_cotangent)
    return np.asarray(live.evaluate(f"vjp {name}", x, context, *both))


def curvature(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
    direction: Array,
) -> Array:
    """See `Subject.curvature`."""
    weights = [_weights(live, one) for one in (value_cotangent, ladj_cotangent, direction)]
    return np.asarray(live.evaluate(f"curvature {name}", x, context, *weights))


def along(
    live: Live, name: str, x: Array, context: Array | None, seed: int, t: float, only: str = ""
) -> Mapped:
    """See `Subject.along`: the same program, with other leaves."""
    if only:
        raise Unsupported("the arrays of a pytree are moved together")
    with live.calling():
        moved = [
            leaf + t * step for leaf, step in zip(live.leaves, live.directions(seed), strict=True)
        ]
    value, ladj = live.having(moved).evaluate(name, x, context)
    return Mapped(value, ladj)


def slope(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    seed: int,
    weights: Array | None,
    values: Array | None = None,
    only: str = "",
) -> float:
    """See `Subject.slope`: by reverse mode through the pytree."""
    if name == "log_prob":
        weights, values = None, weights
    if only:
        raise Unsupported("the arrays of a pytree are moved together")
    both = _weights(live, values), _weights(live, weights)
    stream = seed_of("slope", name, seed)
    with live.calling():
        points = live.points(x, stream, None)
        given = None if context is None else live.points(context, stream, None, 1)
        rounding = live.rounding
        own = None if rounding is None else (derive(rounding[0], stream), rounding[1])
        gradients = live.programs.slope(name, live.leaves, points, given, both, own)
        steps = live.directions(seed)
        return float(
            sum((g * np.asarray(step)).sum() for g, step in zip(gradients, steps, strict=True))
        )
