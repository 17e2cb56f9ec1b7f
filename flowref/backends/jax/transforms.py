"""Derivatives of calls as functions to be compiled: by forward mode, by reverse mode, and of
second order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

Pair = Callable[..., tuple[Any, Any]]


def jacobian_function(pair: Pair) -> Callable[..., Any]:
    """``(leaves, x, context)`` -> Jacobians, ``(batch, outputs, inputs)``: by forward mode with
    each unit vector on all rows at once; by reverse mode where a custom rule has no forward
    mode.
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


def weighted_sum(pair: Pair) -> Callable[..., Any]:
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


def gradient_function(pair: Pair, place: int = 1) -> Callable[..., Any]:
    """The same arguments -> the gradient of the weighted sum in an argument, by default x."""
    gradient: Callable[..., Any] = jax.grad(weighted_sum(pair), argnums=place)
    return gradient


def curved(pair: Pair) -> Callable[..., Any]:
    """The same arguments and a direction -> the derivative of <gradient, direction> in x."""
    gradient = gradient_function(pair)

    def run(leaves: Any, x: Any, context: Any, values: Any, ladjs: Any, along: Any) -> Any:
        def component(points: Any) -> Any:
            return (gradient(leaves, points, context, values, ladjs) * along).sum()

        return jax.grad(component)(x)

    return run


DERIVED: dict[str, Callable[[Pair], Callable[..., Any]]] = {
    "jacobian": jacobian_function,
    "pull x": gradient_function,
    "pull context": partial(gradient_function, place=2),
    "pull x along": curved,
}
