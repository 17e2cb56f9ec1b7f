"""Bijections of bijx, as users derive them: a log-density is threaded through. ``bug`` plants one."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from typing import Any

import bijx
import jax.numpy as jnp
from flax import nnx


class Scaled(bijx.Bijection):
    """A scaling of three entries."""

    def __init__(self, bug: str) -> None:
        self.log_scale, self.bug = nnx.Param(jnp.array([0.3, -0.2, 0.5])), bug

    def counted(self, before: Any, ladj: Any, bug: str) -> Any:
        """The log-density behind a map."""
        if bug == "overwritten":
            return jnp.broadcast_to(-ladj, before.shape)
        return (2 if bug == "twice" else 1) * before - ladj

    def forward(self, x: Any, log_density: Any, **more: Any) -> Any:
        """The map."""
        log_scale = self.log_scale[...]
        after = self.counted(log_density, log_scale.sum(), self.bug)
        return x * jnp.exp(log_scale), after

    def reverse(self, y: Any, log_density: Any, **more: Any) -> Any:
        """Its way back."""
        log_scale = self.log_scale[...]
        bug = self.bug.removeprefix("back ")
        after = self.counted(log_density, -log_scale.sum(), "" if bug == self.bug else bug)
        return y * jnp.exp(-log_scale), after


def scaled(bug: str = "") -> Any:
    """That bijection."""
    return Scaled(bug)


def shifted() -> Any:
    """What keeps volume, between two of the library that do."""
    return bijx.Chain(bijx.Shift(jnp.array([0.3, -0.2, 0.5])), bijx.Bijection())


def transformed() -> Any:
    """A distribution that is transformed, which knows the event of its prior."""
    prior = bijx.IndependentNormal((3,), rngs=nnx.Rngs(0))
    return bijx.Transformed(prior, scaled())


def elementwise() -> Any:
    """What takes events of any shape."""
    return bijx.Tanh()


class Halves(bijx.Bijection):
    """A coupling of two entries by slices, which runs at any number of them; its arrays are wider."""

    def __init__(self, bug: bool) -> None:
        self.inner = nnx.Param(jnp.linspace(-1.0, 1.0, 8)[None])
        self.outer, self.bug = nnx.Param(jnp.linspace(-0.5, 0.8, 16).reshape(8, 2)), bug

    def scale(self, x: Any) -> Any:
        """The log-scale and the shift."""
        return jnp.split(jnp.tanh(x[..., :1] @ self.inner[...]) @ self.outer[...], 2, -1)

    def forward(self, x: Any, log_density: Any, **more: Any) -> Any:
        """The map."""
        s, t = self.scale(x)
        y = jnp.concatenate([x[..., :1], x[..., 1:] * jnp.exp(s) + t], -1)
        return y, log_density - (0.9 if self.bug else 1.0) * s.sum(-1)

    def reverse(self, y: Any, log_density: Any, **more: Any) -> Any:
        """Its way back."""
        s, t = self.scale(y)
        x = jnp.concatenate([y[..., :1], (y[..., 1:] - t) * jnp.exp(-s)], -1)
        return x, log_density + s.sum(-1)


def halves(bug: bool = False) -> Any:
    """That coupling."""
    return Halves(bug)
