"""Training as users do it: a state that is reached by an object's own gradients is valid by
construction. The arrays of a pytree are moved by Adam, one compiled step after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.data import sample
from flowref.backends.jax.live import Live
from flowref.model import REAL, Support, Unsupported, derive

STEPS, RATE, LARGEST_GRADIENT = 30, 1e-2, 10.0
# How far steps can move a parameter.
REACH = STEPS * RATE
ROWS, ENTRIES = 64, 256
# Adam: Kingma and Ba (arXiv:1412.6980), algorithm 1, with its default settings.
FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8


def trained(live: Live) -> list[Any]:
    """The arrays of an object after some steps on a skewed sample with two modes: those of the last
    step at which the loss and every gradient were finite.

    Raises `Unsupported` where there is nothing to train, or no loss to train it by.
    """
    if not any(live.moving) or live.facts.promises.get("fixed"):
        raise Unsupported("it has no parameters that training moves")
    support, shape = _data(live)
    if math.prod(shape) >= ENTRIES:
        raise Unsupported("its events are too large to be trained on here")
    form = ("training step", tuple(live.moving))
    with live.calling():
        if form not in live.programs.clean:
            live.programs.clean[form] = jax.jit(_step(loss(live), live.moving))
        step = live.programs.clean[form]
        rng = np.random.default_rng(derive(live.seed, 37) % 2**32)
        zeros = [jnp.zeros_like(leaf) for leaf in live.leaves]
        state = (list(live.leaves), zeros, list(zeros))
        for number in range(1, STEPS + 1):
            x = sample(support, (ROWS, *shape), rng).astype(live.dtype)
            context = None
            if live.facts.context_shape is not None:
                context = rng.standard_normal((ROWS, *live.facts.context_shape))
                context = context.astype(live.dtype)
            after, finite = step(state, float(number), x, context)
            if not bool(finite):  # what training runs into is no affair of the laws of maps
                break
            state = after
    return list(state[0])


def _step(loss: Callable[..., Any], moving: list[bool]) -> Callable[..., Any]:
    """One step of Adam, the gradient clipped by its norm, and whether all of it is finite."""

    def step(state: Any, number: Any, x: Any, context: Any) -> Any:
        leaves, means, squares = state
        value, gradients = jax.value_and_grad(loss)(leaves, x, context)
        gradients = [g * moves for g, moves in zip(gradients, moving, strict=True)]
        norm = jnp.sqrt(sum((g**2).sum() for g in gradients))
        clip = jnp.minimum(1.0, LARGEST_GRADIENT / jnp.where(norm == 0, 1.0, norm))
        gradients = [clip * g for g in gradients]
        means = [FIRST * m + (1 - FIRST) * g for m, g in zip(means, gradients, strict=True)]
        squares = [
            SECOND * v + (1 - SECOND) * g**2 for v, g in zip(squares, gradients, strict=True)
        ]
        leaves = [
            leaf
            - (
                RATE * (m / (1 - FIRST**number)) / (jnp.sqrt(v / (1 - SECOND**number)) + EPSILON)
            ).astype(leaf.dtype)
            for leaf, m, v in zip(leaves, means, squares, strict=True)
        ]
        return (leaves, means, squares), jnp.isfinite(value) & jnp.isfinite(norm)

    return step


def loss(live: Live) -> Callable[..., Any]:
    """The mean negative log-likelihood: the object's own, or that of a standard normal base through
    its log-det. A map that tells none is moved until its latents have unit second moment.
    """
    if live.dialect.log_prob is not None:
        density = live.programs.pair("log_prob")
        return lambda leaves, x, context: -density(leaves, x, context)[0].mean()
    which = live.dialect.normalizing if live.dialect.inverse is not None else "forward"
    if getattr(live.dialect, which) is None:
        raise Unsupported("it offers no likelihood to train it by")
    pair = live.programs.pair(which, rowed=True)

    def likelihood(leaves: Any, x: Any, context: Any) -> Any:
        z, ladj = pair(leaves, x, context)
        if ladj is None:
            return ((z**2).mean() - 1) ** 2
        return (0.5 * (z**2).sum() - ladj.sum()) / len(x)  # one for each row

    return likelihood


def _data(live: Live) -> tuple[Support, tuple[int, ...]]:
    """Where the data lie, and the shape of a point."""
    dialect, facts = live.dialect, live.facts
    if dialect.forward is None or dialect.normalizing == "forward" or dialect.inverse is None:
        return facts.domain, facts.event_shape
    return facts.codomain or REAL, facts.latent_shape or facts.event_shape
