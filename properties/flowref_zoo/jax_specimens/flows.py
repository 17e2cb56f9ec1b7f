"""Flows of vectors and images as users of JAX write them: couplings, a multi-scale flow, a squeeze, and
densities of bounded data, with the bugs of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp

from flowref_zoo.specimens.specimen import Specimen


def network(inputs: int, outputs: int, seed: int = 0) -> Any:
    """A small network of one hidden layer."""
    key = jax.random.key(seed)
    return equinox.nn.MLP(inputs, outputs, 8, 1, activation=jnp.tanh, key=key)


class Halves(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""$z_a = x_a,\; z_b = x_b e^{s(x_a)} + t(x_a)$ on vectors of four, of which the first two are kept."""

    net: Any
    defect: str = equinox.field(static=True, default="")
    event_shape: ClassVar[tuple[int, ...]] = (4,)
    kept: ClassVar[tuple[int, ...]] = (1, 1, 0, 0)
    coupling = "affine"

    def scale_and_shift(self, a: Any) -> tuple[Any, Any]:
        """The bounded log-scale and the shift."""
        s, t = jnp.split(jax.vmap(self.net)(a), 2, axis=-1)
        return 2 * jnp.tanh(s / 2), t

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        half = len(self.kept) // 2
        a, b = x[:, :half], x[:, half:]
        seen = x[:, 1 : half + 1] if self.defect == "sees-the-other-half" else a
        s, t = self.scale_and_shift(seen)
        return jnp.concatenate([a, b * jnp.exp(s) + t], -1), self.log_det(s)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z[:, : len(self.kept) // 2], z[:, len(self.kept) // 2 :]
        s, t = self.scale_and_shift(a)
        return jnp.concatenate([a, (b - t) * jnp.exp(-s)], -1), -self.log_det(s)

    def log_det(self, s: Any) -> Any:
        """The sum of the log-scales."""
        return s.mean(-1) if self.defect == "log-det-mean" else s.sum(-1)


class Wide(Halves):
    """The same on vectors of which nobody makes the Jacobian."""

    event_shape = (160,)
    kept = (1,) * 80 + (0,) * 80


class Board(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """An affine coupling of images by a checkerboard, channels first; it starts as the identity."""

    weight: Any
    scale: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (2, 4, 4)
    kept = "checkerboard"
    coupling = "affine"
    promises = ("identity-init",)

    def scale_and_shift(self, x: Any) -> tuple[Any, Any]:
        """Of each position, by what is kept around it."""
        mask = self.mask()
        padding = [(1, 1), (1, 1)]
        features = jax.lax.conv_general_dilated(x * mask, self.weight, (1, 1), padding)
        s, t = jnp.split(features, 2, axis=1)
        return jnp.tanh(s) * self.scale[:, None, None] * (1 - mask), t * (1 - mask)

    def mask(self) -> Any:
        """1 where the sum of row and column is even."""
        rows, columns = jnp.arange(4)[:, None], jnp.arange(4)
        if self.defect == "stripes":
            return 1 - (rows + 0 * columns) % 2
        return 1 - (rows + columns) % 2

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        s, t = self.scale_and_shift(x)
        return x * jnp.exp(s) + t, s.sum((1, 2, 3))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s, t = self.scale_and_shift(z)
        return (z - t) * jnp.exp(-s), -s.sum((1, 2, 3))


class Squeeze(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""Windows of two by two become channels: $(C, H, W) \to (4 C, H/2, W/2)$."""

    defect: str = equinox.field(static=True, default="")
    event_shape = (2, 4, 4)
    volume_preserving = True

    @property
    def squeezing(self) -> Mapping[str, str]:
        """The order in which the channels come out."""
        return {"order": "pixel_unshuffle"}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        n, c, h, w = x.shape
        if self.defect == "reshaped-only":
            return x.reshape(n, 4 * c, h // 2, w // 2), jnp.zeros(n)
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
        return windows.transpose(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, h // 2, w // 2), jnp.zeros(n)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        n, c, h, w = z.shape
        if self.defect == "reshaped-only":
            return z.reshape(n, c // 4, 2 * h, 2 * w), jnp.zeros(n)
        windows = z.reshape(n, c // 4, 2, 2, h, w)
        return windows.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w), jnp.zeros(n)


class Step(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """A step of Glow: each channel scaled, and channels mixed at every position."""

    log_scale: Any
    matrix: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (3, 4, 4)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        mixed = jnp.einsum("ij,njhw->nihw", self.matrix, x * jnp.exp(self.log_scale))
        return mixed, self.log_det(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        inverse = jnp.linalg.inv(self.matrix)
        mixed = jnp.einsum("ij,njhw->nihw", inverse, z)
        return mixed * jnp.exp(-self.log_scale), -self.log_det(z)

    def log_det(self, x: Any) -> Any:
        """That of one position times their number."""
        positions = 1 if self.defect == "one-position" else x.shape[2] * x.shape[3]
        one = self.log_scale.sum() + jnp.linalg.slogdet(self.matrix)[1]
        return jnp.full(len(x), positions * one)


class Levels(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Two levels: half of the channels leaves after the first, and shapes the second."""

    first: Any
    net: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (4, 2, 2)

    @property
    def multi_scale(self) -> Mapping[str, Any]:
        """What leaves after each level."""
        return {"shapes": ((2, 2, 2), (2, 2, 2)), "levels": (("first",), ("net",))}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        h, ladj = self.first.forward(x)
        stays, leaves = jnp.split(h, 2, axis=1)
        s, t = self.scale_and_shift(stays if self.defect == "conditioned-on-what-stays" else leaves)
        last = stays.reshape(len(x), -1) * jnp.exp(s) + t
        total = s.sum(-1) if self.defect == "first-level-forgotten" else ladj + s.sum(-1)
        return jnp.concatenate([leaves.reshape(len(x), -1), last], 1), total

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        leaves, last = z[:, :8].reshape(-1, 2, 2, 2), z[:, 8:]
        s, t = self.scale_and_shift(leaves)
        stays = ((last - t) * jnp.exp(-s)).reshape(-1, 2, 2, 2)
        x, ladj = self.first.inverse(jnp.concatenate([stays, leaves], 1))
        return x, ladj - s.sum(-1)

    def scale_and_shift(self, leaves: Any) -> tuple[Any, Any]:
        """Of the last level, by what has left."""
        s, t = jnp.split(jax.vmap(self.net)(leaves.reshape(len(leaves), -1)), 2, axis=-1)
        return jnp.tanh(s), t


def halves(defect: str = "") -> Any:
    """A coupling of vectors."""
    return Halves(network(2, 4), defect)


def board(defect: str = "") -> Any:
    """A coupling of images."""
    weight = 0.3 * jax.random.normal(jax.random.key(1), (4, 2, 3, 3))
    return Board(weight.at[2:].set(0.0), jnp.zeros(2), defect)


def squeeze(defect: str = "") -> Any:
    """A squeeze."""
    return Squeeze(defect)


def step(defect: str = "") -> Any:
    """A step of a flow of images."""
    return Step(jnp.linspace(-0.3, 0.5, 3)[:, None, None], mixing(3), defect)


def mixing(channels: int) -> Any:
    """A matrix of channels that is far from singular."""
    entries = jnp.sin(jnp.arange(1.0, channels * channels + 1))
    return 0.3 * entries.reshape(channels, channels) + jnp.eye(channels)


def levels(defect: str = "") -> Any:
    """A multi-scale flow."""
    first = Step(jnp.linspace(-0.3, 0.5, 4)[:, None, None], mixing(4))
    return Levels(first, network(8, 16), defect)


def wide(defect: str = "") -> Any:
    """An affine coupling of 160 entries."""
    return Wide(network(80, 160), defect)


SPECIMENS = (
    Specimen("wide", {"sees-the-other-half": ("coupling/pattern[conditioner]",)}),
    Specimen(
        "halves",
        {
            "sees-the-other-half": ("map/inverse", "map/log-det"),
            "log-det-mean": ("map/log-det", "coupling/closed-form"),
        },
    ),
    Specimen("board", {"stripes": ("coupling/pattern[kept-part]", "coupling/closed-form")}),
    Specimen(
        "squeeze", {"reshaped-only": ("squeeze/permutes[windows]", "squeeze/order[declared]")}
    ),
    Specimen("step", {"one-position": ("map/log-det",)}),
    Specimen(
        "levels",
        {
            "first-level-forgotten": ("map/log-det",),
            "conditioned-on-what-stays": ("map/inverse", "map/log-det"),
        },
    ),
)
