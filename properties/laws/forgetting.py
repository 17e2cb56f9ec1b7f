"""A map in two levels whose log-density counts the latents of both, of one, or a flat base of all; and one of
angles beside real numbers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Levels(nn.Module):
    """A coupling of six features; the base is said for some of them. ``counted``: how many."""

    event_shape: tuple[int, ...] = (6,)

    def __init__(self, counted: int = 6) -> None:
        super().__init__()
        self.counted = counted
        self.net = nn.Linear(3, 6)

    def _terms(self, a: Any) -> Any:
        s, t = self.net(a).chunk(2, 1)
        return torch.tanh(s), torch.sin(t)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, 1)
        s, t = self._terms(a)
        return torch.cat([a, b * s.exp() + t], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, 1)
        s, t = self._terms(a)
        return torch.cat([a, (b - t) * (-s).exp()], 1), -s.sum(1)

    def log_prob(self, x: Any) -> Any:
        """By change of variables."""
        z, log_det = self(x)
        kept = z[:, : self.counted]
        return log_det - 0.5 * (kept.square() + math.log(2 * math.pi)).sum(1)


class Sampled(Levels):
    """The same with samples, which know all latents."""

    def sample(self, n: int) -> Any:
        """Those of a standard normal."""
        return self.inverse(torch.randn(n, 6))[0]


class Images(Sampled):
    """The same of pictures, in levels of which one half is forgotten, or none."""

    event_shape = (3, 8, 8)

    def __init__(self, counted: int = 192) -> None:
        super().__init__(counted)
        self.net = nn.Linear(96, 192)

    def forward(self, x: Any) -> Any:
        """Pictures to latents in a row."""
        return super().forward(x.flatten(1))

    def inverse(self, z: Any) -> Any:
        """Latents to pictures."""
        x, log_det = super().inverse(z)
        return x.reshape(-1, *self.event_shape), log_det

    def sample(self, n: int) -> Any:
        """Those of a standard normal."""
        return self.inverse(torch.randn(n, 192))[0]


class Uniform(Sampled):
    """Half of the latents are uniform between zero and one, which the base does not check."""

    def __init__(self) -> None:
        super().__init__(3)

    def sample(self, n: int) -> Any:
        """Those of the base."""
        return self.inverse(torch.cat([torch.randn(n, 3), torch.rand(n, 3)], 1))[0]


class Torsions(nn.Module):
    """Four angles that are uniform, and two normal numbers that they scale; nothing says which is which."""

    event_shape = (6,)

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 2)

    def _log_scale(self, angles: Any) -> Any:
        return torch.tanh(self.net(torch.cat([angles.cos(), angles.sin()], 1)))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s = self._log_scale(x[:, :4])
        return torch.cat([x[:, :4], x[:, 4:] * s.exp()], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        s = self._log_scale(z[:, :4])
        return torch.cat([z[:, :4], z[:, 4:] * (-s).exp()], 1), -s.sum(1)

    def log_prob(self, x: Any) -> Any:
        """By change of variables, around the circle again and again."""
        z, log_det = self(x)
        normal = -0.5 * (z[:, 4:].square() + math.log(2 * math.pi)).sum(1)
        return log_det + normal - 4 * math.log(2 * math.pi)
