"""Bijections of bijx, as users derive them: a log-density is threaded through. ``slip`` plants one."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from typing import Any

import bijx
import jax.numpy as jnp
from flax import nnx


class Scaled(bijx.Bijection):
    """A scaling of three entries."""

    def __init__(self, slip: str) -> None:
        self.log_scale, self.slip = nnx.Param(jnp.array([0.3, -0.2, 0.5])), slip

    def counted(self, before: Any, ladj: Any, slip: str) -> Any:
        """The log-density behind a map."""
        if slip == "overwritten":
            return jnp.broadcast_to(-ladj, before.shape)
        return (2 if slip == "twice" else 1) * before - ladj

    def forward(self, x: Any, log_density: Any, **more: Any) -> Any:
        """The map."""
        log_scale = self.log_scale[...]
        after = self.counted(log_density, log_scale.sum(), self.slip)
        return x * jnp.exp(log_scale), after

    def reverse(self, y: Any, log_density: Any, **more: Any) -> Any:
        """Its way back."""
        log_scale = self.log_scale[...]
        slip = self.slip.removeprefix("back ")
        after = self.counted(log_density, -log_scale.sum(), "" if slip == self.slip else slip)
        return y * jnp.exp(-log_scale), after


def scaled(slip: str = "") -> Any:
    """That bijection."""
    return Scaled(slip)


def shifted() -> Any:
    """What keeps volume, between two of the library that do."""
    return bijx.Chain(bijx.Shift(jnp.array([0.3, -0.2, 0.5])), bijx.Bijection())
