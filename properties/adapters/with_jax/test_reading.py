"""Of the loops of a program those make a map a solver that its points reach; see `reading.iterates`."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax", reason="programs of JAX are read")

import jax
import jax.numpy as jnp

from flowref.adapters.user.jax.loop_counts import iterates

WEIGHT, LAYERS = jnp.eye(3) * 0.5, jnp.stack([jnp.eye(3)] * 2)
STEPS, MOST = 40, 14
Program = Callable[[Any, Any, Any], Any]


def repeated(first: Any) -> Any:
    """A step that is taken a number of times."""
    return jax.lax.fori_loop(0, STEPS, lambda _, u: jnp.tanh(WEIGHT @ u), first)


def until(first: Any) -> Any:
    """A step that is taken until little changes."""
    return jax.lax.while_loop(lambda u: jnp.abs(u).max() > 0.1, lambda u: WEIGHT @ u, first)


def of_weights(loop: Callable[[Any], Any]) -> Program:
    """The loop runs over weights, and gives a scale."""
    return lambda _, x, __: x * loop(jnp.ones(3))


def of_points(loop: Callable[[Any], Any]) -> Program:
    """The loop runs over each point."""
    return lambda _, x, __: jax.vmap(loop)(x)


def within_layers(loop: Callable[[Any], Any]) -> Program:
    """Points pass through layers, each with a loop over its own weights."""

    def layer(x: Any, weight: Any) -> Any:
        return x * loop(weight[0]), None

    return lambda _, x, __: jax.lax.scan(layer, x, LAYERS)[0]


def within_jit(loop: Callable[[Any], Any]) -> Program:
    """The loop over weights stands in a function that is compiled with the points."""
    return lambda _, x, __: jax.jit(lambda one, first: one * loop(first))(x, jnp.ones(3))


def in_a_branch(loop: Callable[[Any], Any]) -> Program:
    """Points choose a branch, in which the loop runs over weights."""

    def chosen(x: Any) -> Any:
        return jax.lax.cond(
            x.sum() > 0, lambda first: loop(first), lambda first: first, jnp.ones(3)
        )

    return lambda _, x, __: x * chosen(x)


def reached_later(loop: Callable[[Any], Any]) -> Program:
    """What is carried begins as weights, and becomes a point after the first step."""

    def step(carried: Any, _: Any) -> Any:
        first, second = carried
        return (second, loop(first)), None

    return lambda _, x, __: jax.lax.scan(step, (jnp.ones(3), x[0]), None, length=2)[0][1] + x


@pytest.mark.parametrize("loop", [repeated, until])
@pytest.mark.parametrize(
    ("program", "reached"),
    [
        (of_weights, False),
        (within_layers, False),
        (within_jit, False),
        (in_a_branch, False),
        (of_points, True),
        (reached_later, True),
    ],
)
def test_loops_count_where_points_reach_them(
    program: Callable[[Any], Program], loop: Callable[[Any], Any], reached: bool
) -> None:
    """Through layers, compiled functions, branches, and what a loop carries; without the question all count."""
    points = jnp.ones((5, 3)), None
    call = program(loop)
    assert iterates(call, None, points, MOST)
    assert iterates(call, None, points, MOST, of_points=True) is reached
