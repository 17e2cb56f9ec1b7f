"""Training of pytrees: gradient steps of their arrays, by one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends import training
from flowref.backends.jax.live import Live
from flowref.backends.jax.trees import positive
from flowref.model import Array, Unsupported


def trained_arrays(live: Live) -> list[Any]:
    """The arrays of an object after some steps (see `flowref.backends.training`): those of the
    last step with finite loss and gradients. Errors of the training are not tested by laws of
    maps.

    Raises `Unsupported` if there is nothing to train, or no loss.
    """
    if not any(live.moving):
        raise Unsupported("it has no parameters that training moves")
    if live.facts.certainty.estimate:  # with one key training would fit its noise
        raise Unsupported("its log-det is an estimate, by which it is not trained here")
    with live.calling():
        trainee = JaxTrainee(live)
        training.train_by_adam(trainee, live.dialect, live.facts, live.seed)
        return [jnp.asarray(leaf) for leaf in trainee.leaves]


class JaxTrainee:
    """See `training.Trainee`."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.leaves = [np.asarray(leaf) for leaf in live.leaves]
        self.above = [positive(leaf) for leaf in self.leaves]

    def gradients(self, x: Array, context: Array | None) -> tuple[float, Sequence[Any]]:
        """The loss of a batch ``x`` ``(n, *event)`` and the gradients of the trained arrays,
        computed step by step or compiled.
        """
        programs, moving = self.live.programs, self.live.moving
        given = [None if one is None else one.astype(self.live.dtype) for one in (x, context)]
        form = ("training", *moving)
        graded: Callable[..., Any] = jax.value_and_grad(loss(self.live))
        found = programs.step(form, lambda: graded, None, self.leaves, *given)
        if found is None:
            if form not in programs.clean:
                programs.clean[form] = jax.jit(graded)
            found = programs.clean[form](self.leaves, *given)
        value, gradients = found
        pairs = zip(gradients, moving, strict=True)
        return float(value), [np.asarray(one) if moves else None for one, moves in pairs]

    def keep(self) -> None:
        """Arrays are not changed in place."""

    def move(self, moves: Sequence[Any]) -> None:
        """Moves the arrays. Positive arrays stay positive, since they may have to be."""
        for place, (leaf, move) in enumerate(zip(self.leaves, moves, strict=True)):
            if move is not None:
                moved = np.maximum(leaf - move, leaf / 2) if self.above[place] else leaf - move
                self.leaves[place] = moved.astype(leaf.dtype)


def loss(live: Live) -> Callable[..., Any]:
    """The mean negative log-likelihood: the object's own, or that of a standard normal base
    through its log-det. For a map without a log-det: the squared deviation of the latents'
    second moment from one.
    """
    if live.dialect.log_prob is not None:
        density = live.programs.traced_pair("log_prob")
        return lambda leaves, x, context: -density(leaves, x, context)[0].mean()
    pair = live.programs.traced_pair(training.mapping(live.dialect), rowed=True)

    def likelihood(leaves: Any, x: Any, context: Any) -> Any:
        z, ladj = pair(leaves, x, context)
        if ladj is None:
            return ((z**2).mean() - 1) ** 2
        return (0.5 * (z**2).sum() - ladj.sum()) / len(x)  # one for each row

    return likelihood
