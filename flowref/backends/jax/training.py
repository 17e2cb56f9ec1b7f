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
from flowref.backends.jax.trees import positive
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
    if live.facts.certainty.estimate:  # the noise of one key is fitted, and no likelihood
        raise Unsupported("its log-det is an estimate, by which it is not trained here")
    support, shape = _data(live)
    if math.prod(shape) >= ENTRIES:
        raise Unsupported("its events are too large to be trained on here")
    rng = np.random.default_rng(derive(live.seed, 37) % 2**32)
    leaves = [np.asarray(leaf) for leaf in live.leaves]
    above = [positive(leaf) for leaf in leaves]
    means, squares = ([np.zeros_like(leaf) for leaf in leaves] for _ in range(2))
    with live.calling():
        for number in range(1, STEPS + 1):
            x = sample(support, (ROWS, *shape), rng).astype(live.dtype)
            context = None
            if live.facts.context_shape is not None:
                context = rng.standard_normal((ROWS, *live.facts.context_shape))
                context = context.astype(live.dtype)
            value, gradients = _gradients(live, leaves, x, context)
            gradients = [
                np.asarray(g) * moves for g, moves in zip(gradients, live.moving, strict=True)
            ]
            norm = np.sqrt(sum((g**2).sum() for g in gradients))
            if not np.isfinite(value) or not np.isfinite(norm):
                break  # what training runs into is no affair of the laws of maps
            clip = min(1.0, LARGEST_GRADIENT / (norm or 1.0))
            for place, g in enumerate(gradients):
                means[place] = FIRST * means[place] + (1 - FIRST) * clip * g
                squares[place] = SECOND * squares[place] + (1 - SECOND) * (clip * g) ** 2
                mean, square = (
                    means[place] / (1 - FIRST**number),
                    squares[place] / (1 - SECOND**number),
                )
                moved = leaves[place] - RATE * mean / (np.sqrt(square) + EPSILON)
                if above[place]:  # it may have to be positive
                    moved = np.maximum(moved, leaves[place] / 2)
                leaves[place] = moved.astype(leaves[place].dtype)
        return [jnp.asarray(leaf) for leaf in leaves]


def _gradients(live: Live, leaves: list[Any], x: Any, context: Any) -> Any:
    """The loss at these arrays, and its gradients."""
    form = ("training", *live.moving)
    programs = live.programs

    graded: Callable[..., Any] = jax.value_and_grad(loss(live))
    found = programs.step(form, lambda: graded, None, leaves, x, context)
    if found is None:
        if form not in programs.clean:
            programs.clean[form] = jax.jit(graded)
        found = programs.clean[form](leaves, x, context)
    return found


def loss(live: Live) -> Callable[..., Any]:
    """The mean negative log-likelihood: the object's own, or that of a standard normal base through
    its log-det. A map that tells none is moved until its latents have unit second moment.
    """
    if live.dialect.log_prob is not None:
        density = live.programs.traced_pair("log_prob")
        return lambda leaves, x, context: -density(leaves, x, context)[0].mean()
    which = live.dialect.normalizing if live.dialect.inverse is not None else "forward"
    if getattr(live.dialect, which) is None:
        raise Unsupported("it offers no likelihood to train it by")
    pair = live.programs.traced_pair(which, rowed=True)

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
