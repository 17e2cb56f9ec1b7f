"""Training as users do it. A state that the object's own gradients reach is valid by construction,
so failures in it always count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from flowref.backends.data import (
    data_on_latents,
    points_and_contexts,
    side,
    skewed_samples,
    toward_latents,
)
from flowref.model import Array, Dialect, Facts, Unsupported, derive

STEPS, RATE, LARGEST_GRADIENT = 30, 1e-2, 10.0
# The largest total move of a parameter.
REACH = STEPS * RATE
ROWS, ENTRIES = 64, 256
# Adam: Kingma and Ba (arXiv:1412.6980), algorithm 1, with its default settings.
BETAS, EPSILON = (0.9, 0.999), 1e-8


class Ended(Exception):
    """A step that cannot be made; the message is the reason."""


class Trainee(Protocol):
    """An object in training. Gradients and moves are arrays of its framework, one for each array
    that it holds, None for arrays that are not trained.
    """

    def gradients(self, x: Array, context: Array | None) -> tuple[float, Sequence[Any]]:
        """Returns the loss of a batch ``x`` ``(n, *event)`` and its gradients, if it is finite.
        Raises `Ended` if there are none.
        """

    def keep(self) -> None:
        """Store this state as the last one whose loss and gradients were finite."""

    def move(self, moves: Sequence[Any]) -> None:
        """Subtract moves from the arrays."""


def mapping(dialect: Dialect) -> str:
    """Returns the call whose log-det is the training loss of an object without a density. Raises
    `Unsupported` if there is none; for calls that draw, see `Dialect.function`.
    """
    which = toward_latents(dialect)
    if getattr(dialect, which) is None and dialect.push is None:
        raise Unsupported("it offers no likelihood to train it by")
    return which


def train_by_adam(
    trainee: Trainee, dialect: Dialect, facts: Facts, seed: int
) -> tuple[tuple[float, ...], str]:
    """Trains by up to 30 steps of Adam, each on a new batch of 64 points of a skewed sample with
    two modes. Returns the losses of the steps made, and why they ended early, or "".

    Raises `Unsupported` if there is nothing to train.
    """
    if facts.promises.get("fixed"):
        raise Unsupported("it has no parameters that training moves")
    latents = data_on_latents(dialect)
    if math.prod(side(facts, latents)[1]) >= ENTRIES:
        raise Unsupported("its events are too large to be trained on here")
    rng = np.random.default_rng(derive(seed, 37) % 2**32)
    moments: dict[tuple[int, int], Any] = {}
    losses: list[float] = []
    for step in range(1, STEPS + 1):
        try:
            loss, gradients = trainee.gradients(
                *points_and_contexts(facts, ROWS, rng, latents, skewed_samples)
            )
        except Ended as ended:
            return tuple(losses), f"step {step} {ended}" if str(ended) else ""
        if not math.isfinite(loss):
            return tuple(losses), f"the loss is {loss} at step {step}"
        losses.append(loss)
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients if g is not None))
        if not math.isfinite(norm):
            error = f"a gradient is not finite at step {step}, where the loss is {loss:.4g}"
            return tuple(losses), error
        trainee.keep()
        clip = min(1.0, LARGEST_GRADIENT / norm) if norm else 1.0
        trainee.move(
            [
                None if g is None else _move(moments, place, clip * g, step)
                for place, g in enumerate(gradients)
            ]
        )
    trainee.keep()
    return tuple(losses), ""


def _move(moments: dict[tuple[int, int], Any], place: int, gradient: Any, step: int) -> Any:
    for which, new in enumerate((gradient, gradient * gradient)):
        kept = BETAS[which] * moments.get((place, which), 0.0)
        moments[place, which] = kept + (1 - BETAS[which]) * new
    mean, square = (moments[place, which] / (1 - BETAS[which] ** step) for which in (0, 1))
    return RATE * mean / (square**0.5 + EPSILON)
