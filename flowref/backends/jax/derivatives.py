"""Derivatives of a live object's calls, and calls with its arrays moved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowref.backends.jax.live import Live, call_digest
from flowref.model import Array, Mapped, Unsupported, derive

# JAX's `ValueError` for loops of unknown length.
NO_WAY_BACK = "Reverse-mode differentiation does not work"


@contextlib.contextmanager
def reversible() -> Iterator[None]:
    """Turns JAX's error about reverse mode through a `jax.lax.while_loop` into `Unsupported`: it
    is not an error of the call.
    """
    try:
        yield
    except ValueError as error:
        if NO_WAY_BACK not in str(error):
            raise
        raise Unsupported(
            "it runs through a loop of unknown length, through which JAX has no reverse mode",
            blocked=False,
        ) from error


def jacobian(live: Live, name: str, x: Array, context: Array | None = None) -> Array:
    """See `Subject.jacobian`; ``(n, outputs, inputs)``, by forward mode, which works through every
    loop.
    """
    return np.asarray(live.evaluate(f"jacobian {name}", x, context))


@reversible()
def pull(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    values: Array | None,
    ladjs: Array | None,
    toward: str = "x",
    along: Array | None = None,
    *,
    only: str = "",
    draws: int | None = None,
    training: bool = False,
) -> Any:
    """See `flowref.backends.derivatives.Derivatives.pull`: by reverse mode."""
    if draws is not None or training:
        raise Unsupported("its draws depend on a key")
    _require_all_arrays(only)
    both = _weights(live, values), _weights(live, ladjs)
    if toward != "parameters":
        kind = f"pull {toward}" if along is None else f"pull {toward} along"
        more = () if along is None else (_weights(live, along),)
        return np.asarray(live.evaluate(f"{kind} {name}", x, context, *both, *more))
    stream = call_digest(f"slope {name}", (x, context, *both))
    with live.calling():
        points = live.points(x, stream, None)
        given = None if context is None else live.points(context, stream, None, 1)
        rounding = live.rounding
        own = None if rounding is None else (derive(rounding[0], stream), rounding[1])
        return live.programs.slope(name, live.leaves, points, given, both, own)


def _weights(live: Live, weights: Array | None) -> Array | None:
    return None if weights is None else np.asarray(weights, live.dtype)


def _require_all_arrays(only: str) -> None:
    if only:
        raise Unsupported("the arrays of a pytree are moved together")


def along(
    live: Live, name: str, x: Array, context: Array | None, seed: int, t: float, only: str = ""
) -> Mapped:
    """See `Subject.along`: the same program, with other leaves."""
    directions = steps(live, seed, only)
    with live.calling():
        moved = [leaf + t * step for leaf, step in zip(live.leaves, directions, strict=True)]
    value, ladj = live.having(moved).evaluate(name, x, context)
    return Mapped(value, ladj)


def steps(live: Live, seed: int, only: str = "") -> list[Array]:
    """The direction in which `along` moves the arrays, one array in the shape of each leaf."""
    _require_all_arrays(only)
    with live.calling():
        return [np.asarray(step) for step in live.directions(seed)]
