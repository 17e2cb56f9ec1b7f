"""Scores of densities in JAX, of batches and of single events."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")

import jax
import jax.numpy as jnp

from flowref import check
from flowref.model import Status

MEAN, SCALE = (0.3, -0.5, 1.0), (0.7, 1.3, 2.0)


class Batches:
    """A normal density of a batch, with its score."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor, self.mean, self.scale = factor, jnp.array(MEAN), jnp.array(SCALE)

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = (x - self.mean) / self.scale
        return (-0.5 * z**2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi)).sum(-1)

    def sample(self, key: Any, n: int) -> Any:
        """Draw."""
        return self.mean + self.scale * jax.random.normal(key, (n, 3))

    def score(self, x: Any) -> Any:
        """The gradient of the log-density."""
        return -self.factor * (x - self.mean) / self.scale**2


class Events(Batches):
    """The same of single events, with the gradient of one of them."""

    def sample(self, key: Any) -> Any:  # type: ignore[override]  # it draws one
        """Draw one."""
        return self.mean + self.scale * jax.random.normal(key, (3,))

    def score(self, x: Any) -> Any:
        """The gradient of the log-density of an event."""
        return self.factor * jax.grad(self.log_prob)(x)


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("kind", [Batches, Events])
def test_a_score_is_the_gradient_of_the_log_density(kind: Any, factor: float) -> None:
    """A score is held to the gradient of the log-density."""
    expected = Status.HOLDS if factor == 1 else Status.VIOLATED
    assert check(kind(factor), "density/score").status is expected
