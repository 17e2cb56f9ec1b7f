"""Training as users do it: a state that is reached by an object's own gradients is valid by
construction, so that there is no excuse for what shows in it.
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
# How far steps can move a parameter.
REACH = STEPS * RATE
ROWS, ENTRIES = 64, 256
# Adam: Kingma and Ba (arXiv:1412.6980), algorithm 1, with its default settings.
BETAS, EPSILON = (0.9, 0.999), 1e-8


class Ended(Exception):
    """A step that cannot be made, with what to say of it."""


class Trainee(Protocol):
    """An object in training. Its gradients and moves are arrays of its framework, one for each array that
    it holds, None where nothing moves it.
    """

    def gradients(self, x: Array, context: Array | None) -> tuple[float, Sequence[Any]]:
        """The loss of a batch, and its gradients where it is finite. Raises `Ended` where there are none."""

    def keep(self) -> None:
        """Hold on to this state: its loss and gradients are finite."""

    def move(self, moves: Sequence[Any]) -> None:
        """Subtract moves from the arrays."""


def mapping(dialect: Dialect) -> str:
    """The call by whose log-det an object is trained that tells no density; `Unsupported` where there is
    none. What may draw has a reason of its own (see `Dialect.function`).
    """
    which = toward_latents(dialect)
    if getattr(dialect, which) is None and dialect.push is None:
        raise Unsupported("it offers no likelihood to train it by")
    return which


def train_by_adam(
    trainee: Trainee, dialect: Dialect, facts: Facts, seed: int
) -> tuple[tuple[float, ...], str]:
    """Steps of Adam, each on a new batch of a skewed sample with two modes: the losses of those that were
    made, and why there were no more, or "".

    Raises `Unsupported` where there is nothing to train.
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
    """How far Adam moves an array in a step."""
    for which, new in enumerate((gradient, gradient * gradient)):
        kept = BETAS[which] * moments.get((place, which), 0.0)
        moments[place, which] = kept + (1 - BETAS[which]) * new
    mean, square = (moments[place, which] / (1 - BETAS[which] ** step) for which in (0, 1))
    return RATE * mean / (square**0.5 + EPSILON)
