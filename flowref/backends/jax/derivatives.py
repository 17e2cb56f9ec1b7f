"""Derivatives of a live object's calls: in the input, and along a direction in the parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from flowref.backends.jax.live import Live
from flowref.model import Array, Mapped, Unsupported, derive, seed_of

# What JAX says of loops whose number of steps is not known beforehand: `ValueError`.
NO_WAY_BACK = "Reverse-mode differentiation does not work"


@contextlib.contextmanager
def reversible() -> Iterator[None]:
    """Where a call runs through a `jax.lax.while_loop` JAX has no reverse mode, whatever is right: that is
    `Unsupported`, and no error of the call.
    """
    try:
        yield
    except ValueError as error:
        if NO_WAY_BACK not in str(error):
            raise
        raise Unsupported(
            "it runs through a loop of unknown length, through which JAX has no reverse mode",
            waits=False,
        ) from error


def jacobian(live: Live, name: str, x: Array, context: Array | None = None) -> Array:
    """See `Subject.jacobian`."""
    return np.asarray(live.evaluate(f"jacobian {name}", x, context))


def _weights(live: Live, weights: Array | None) -> Array | None:
    return None if weights is None else np.asarray(weights, live.dtype)


@reversible()
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


@reversible()
def context_vjp(
    live: Live,
    name: str,
    x: Array,
    context: Array,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> Array:
    """See `Subject.context_vjp`."""
    both = _weights(live, value_cotangent), _weights(live, ladj_cotangent)
    return np.asarray(live.evaluate(f"context_vjp {name}", x, context, *both))


@reversible()
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


@reversible()
def slope(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    seed: int,
    weights: Array | None,
    values: Array | None = None,
    only: str = "",
    draws: int | None = None,
    training: bool = False,
) -> float:
    """See `Subject.slope`: by reverse mode through the pytree."""
    if draws is not None or training:
        raise Unsupported("what it draws depends on a key")
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
