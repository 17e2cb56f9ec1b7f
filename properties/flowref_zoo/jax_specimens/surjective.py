"""Layers of SurVAE flows as users of JAX write them: they say whether they draw, take a key, and return
what they contribute (Nielsen et al., arXiv:2007.02731); with the bugs of each.
"""

from __future__ import annotations

import math
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from flowref_zoo.specimens.specimen import Specimen


class Absolute(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""$z = |x|$, the sign by a fair coin: $-D \log 2$."""

    defect: str = equinox.field(static=True, default="")
    bijective, stochastic_forward, stochastic_inverse = False, False, True
    event_shape, codomain = (2,), "positive"

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        entries = 1 if self.defect == "one-entry" else x.shape[1]
        return jnp.abs(x), jnp.full(len(x), -math.log(2) * entries)

    def inverse(self, z: Any, key: Any) -> Any:
        """Latents to data."""
        if self.defect == "no-sign":
            return z
        return jnp.where(jax.random.bernoulli(key, 0.5, z.shape), z, -z)


class Augment(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Two numbers, and one beside them that is normal around a function of theirs; it is dropped on the
    way back. One event at a time, as users of equinox write layers.
    """

    shift: Any
    log_scale: Any
    defect: str = equinox.field(static=True, default="")
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape, codomain = (2,), "real"

    def forward(self, x: Any, key: Any) -> tuple[Any, Any]:
        """Data to latents, with what the entropy of the noise contributes."""
        loc, scale = self.shift @ jnp.tanh(x), jnp.exp(self.log_scale)
        noise = loc + scale * jax.random.normal(key, (1,))
        wide = 1.0 if self.defect == "scale-missing" else scale
        told = 0.0 if self.defect == "noise-for-nothing" else -norm.logpdf(noise, loc, wide).sum()
        return jnp.concatenate([x, noise]), told

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        loc, scale = self.shift @ jnp.tanh(z[:2]), jnp.exp(self.log_scale)
        return z[:2], norm.logpdf(z[2:], loc, scale).sum()


class Drop(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Two of three numbers are kept; the third is normal around a function of them."""

    shift: Any
    log_scale: Any
    defect: str = equinox.field(static=True, default="")
    bijective, stochastic_forward, stochastic_inverse = False, False, True
    event_shape, codomain = (3,), "real"

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z, rest = x[:, :2], x[:, 2:]
        loc, scale = jnp.tanh(z) @ self.shift.T, jnp.exp(self.log_scale)
        wide = 1.0 if self.defect == "scale-missing" else scale
        return z, norm.logpdf(rest, loc, wide).sum(1)

    def inverse(self, z: Any, key: Any) -> tuple[Any, Any]:
        """Latents to data."""
        loc, scale = jnp.tanh(z) @ self.shift.T, jnp.exp(self.log_scale)
        rest = loc + scale * jax.random.normal(key, (len(z), 1))
        told = -norm.logpdf(rest, loc, scale).sum(1)
        return jnp.concatenate([rest, z] if self.defect == "other-order" else [z, rest], 1), told


class Metropolis(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""Steps of a chain with the density $e^{-u}$: $y = x + \sigma \eta$ is accepted where
    $v < e^{u(x) - u(y)}$; $u(z) - u(x)$ in all. The way back is the same chain.
    """

    log_size: Any
    defect: str = equinox.field(static=True, default="")
    bijective, stochastic_forward, stochastic_inverse = False, True, True
    event_shape, codomain = (2,), "real"
    steps = 2

    def energy(self, x: Any) -> Any:
        """Two wells, held below 20."""
        return 20 * jnp.tanh(((x[:, 0] ** 2 - 1) ** 2 + x[:, 1] ** 2) / 40)

    def forward(self, x: Any, key: Any) -> tuple[Any, Any]:
        """Data to latents."""

        def step(state: Any, key: Any) -> tuple[Any, Any]:
            x, u = state
            keys = jax.random.split(key)
            y = x + jnp.exp(self.log_size) * jax.random.normal(keys[0], x.shape)
            thresholds = jax.random.uniform(keys[1], () if self.defect == "one-coin" else u.shape)
            there = self.energy(y)
            ratio = jnp.exp(jnp.minimum(u - there, 0.0))
            if self.defect == "uphill":
                ratio = jnp.exp(jnp.minimum(there - u, 0.0))
            accepted = thresholds < ratio
            return (jnp.where(accepted[:, None], y, x), jnp.where(accepted, there, u)), None

        before = self.energy(x)
        (x, after), _ = jax.lax.scan(step, (x, before), jax.random.split(key, self.steps))
        return x, after - before

    def inverse(self, z: Any, key: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.forward(z, key)


def absolute(defect: str = "") -> Any:
    """The absolute value of two numbers."""
    return Absolute(defect)


def augment(defect: str = "") -> Any:
    """One more number."""
    return Augment(jnp.array([[0.5, -0.8]]), jnp.array(-0.7), defect)


def drop(defect: str = "") -> Any:
    """One number less."""
    return Drop(jnp.array([[0.5, -0.8]]), jnp.array(-0.7), defect)


def metropolis(defect: str = "") -> Any:
    """A chain of two steps, of which some are refused."""
    return Metropolis(jnp.log(1.0), defect)


INTEGRAL = "density/mass[contribution]"
SPECIMENS = (
    Specimen(
        "absolute",
        {
            "one-entry": (INTEGRAL,),
            "no-sign": ("kernel/follows-contribution", "random/seeded[no-draws]"),
        },
    ),
    Specimen("augment", {"scale-missing": (INTEGRAL,), "noise-for-nothing": (INTEGRAL,)}),
    Specimen(
        "drop",
        {
            "scale-missing": (
                "kernel/follows-contribution[near-pairs]",
                "kernel/follows-contribution",
            ),
            "other-order": ("map/inverse[draws]",),
        },
    ),
    Specimen(
        "metropolis",
        {
            "one-coin": ("random/rows-independent[contribution]",),
            "uphill": ("kernel/follows-contribution", INTEGRAL),
        },
    ),
)
