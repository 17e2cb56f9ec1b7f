"""Maps of vectors onto a simplex in JAX: what they return has one number more. ``bug`` plants one."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class LogRatio(eqx.Module):
    """A softmax of n numbers and zero, with a temperature. ``surface``: the log-det is that of the volume of
    the simplex, and not of all coordinates but the last. ``axes``: of the points that it takes.
    """

    log_heat: jax.Array
    axes: int = eqx.field(static=True)
    bug: str = eqx.field(static=True)
    surface: bool = eqx.field(static=True)

    def onto(self, x: Any) -> Any:
        """The map."""
        if x.ndim != self.axes:
            raise ValueError(f"points of {self.axes} axes are taken")
        y = jax.nn.softmax(jnp.pad(x * jnp.exp(-self.log_heat), [(0, 0)] * (x.ndim - 1) + [(0, 1)]))
        return jnp.concatenate([y[..., :-1], y[..., :1]], -1) if self.bug == "last" else y

    def log_det(self, y: Any) -> Any:
        """The log-det at an image."""
        size = y.shape[-1] - 1
        entries = y[..., :-1] if self.bug == "term" else y
        more = 0.5 * math.log(size + 1) if self.surface else 0.0
        return jnp.log(entries).sum(-1) - size * self.log_heat + more

    def back(self, y: Any) -> Any:
        """The way back."""
        return jnp.log(y[..., :-1] / y[..., -1:]) * jnp.exp(self.log_heat)


class Pairs(LogRatio):
    """Value and log-det at once."""

    def forward(self, x: Any) -> Any:
        """Onto the simplex."""
        y = self.onto(x)
        return y, self.log_det(y)

    def inverse(self, y: Any) -> Any:
        """And back."""
        return self.back(y), -self.log_det(y)


class Beside(LogRatio):
    """The log-det by a method of its own."""

    def forward(self, x: Any) -> Any:
        """Onto the simplex."""
        return self.onto(x)

    def inverse(self, y: Any) -> Any:
        """And back."""
        return self.back(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """At a point and its image."""
        return self.log_det(y)


def single(bug: str = "", surface: bool = False) -> Any:
    """Of one event."""
    return Pairs(jnp.array(0.3), 1, bug, surface)


def batched(bug: str = "", surface: bool = False) -> Any:
    """Of a batch."""
    return Pairs(jnp.array(0.3), 2, bug, surface)


def beside(bug: str = "", surface: bool = False) -> Any:
    """Of one event, and a log-det beside the map."""
    return Beside(jnp.array(0.3), 1, bug, surface)
