"""Contexts that are None by default, under names of their own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

FEATURES, SIZE = 4, 3


class Conditioned(nn.Module):
    """Half of the features move the others, and so does what is given besides."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(FEATURES // 2, FEATURES)
        self.given = nn.Linear(SIZE, FEATURES)

    def moves(self, kept: Any, given: Any) -> tuple[Any, Any]:
        """The log-scale and the shift of the other half."""
        moved = self.net(kept) if given is None else self.net(kept) + self.given(given)
        log_scale, shift = moved.chunk(2, -1)
        return torch.tanh(log_scale), shift


class Coupling(Conditioned):
    """A map under the volume of a cell."""

    def forward(self, x: Any, volume: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        kept, moved = x.chunk(2, -1)
        log_scale, shift = self.moves(kept, volume)
        ladj = log_scale.sum(-1)
        if self.defect == "without-volume":
            ladj = self.moves(kept, None)[0].sum(-1)
        return torch.cat([kept, moved * log_scale.exp() + shift], -1), ladj

    def inverse(self, z: Any, volume: Any = None) -> tuple[Any, Any]:
        """Latents to data."""
        kept, moved = z.chunk(2, -1)
        log_scale, shift = self.moves(kept, None if self.defect == "forgotten-back" else volume)
        return torch.cat([kept, (moved - shift) * (-log_scale).exp()], -1), -log_scale.sum(-1)


class Turned(Conditioned):
    """A map both ways, whose switch stands before the pressure."""

    def forward(self, x: Any, reverse: bool = False, pressure: Any = None) -> tuple[Any, Any]:
        """Data to latents, or back."""
        kept, moved = x.chunk(2, -1)
        log_scale, shift = self.moves(kept, pressure)
        if reverse:
            return torch.cat([kept, (moved - shift) * (-log_scale).exp()], -1), -log_scale.sum(-1)
        ladj = log_scale.sum(-1) * (0.8 if self.defect and pressure is not None else 1.0)
        return torch.cat([kept, moved * log_scale.exp() + shift], -1), ladj


class Density(Conditioned):
    """A log-density of data under a volume."""

    def log_prob(self, x: Any, volume: Any = None) -> Any:
        """The log-density."""
        kept, moved = x.chunk(2, -1)
        log_scale, shift = self.moves(kept, volume)
        z = torch.cat([kept, moved * log_scale.exp() + shift], -1)
        entries = FEATURES - 1 if self.defect and volume is not None else FEATURES
        normal = -0.5 * (z * z).sum(-1) - entries / 2 * math.log(2 * math.pi)
        return normal + log_scale.sum(-1)


class Scattered(nn.Module):
    """Noise is drawn unless it is given: what is given is no context."""

    def forward(self, x: Any, jitter: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        moved = x + 0.1 * (torch.rand_like(x) if jitter is None else jitter)
        return moved, x.new_zeros(len(x))


class Energy(Coupling):
    """What is given is positive, which nobody says."""

    def moves(self, kept: Any, given: Any) -> tuple[Any, Any]:
        """Of its logarithm."""
        return super().moves(kept, None if given is None else given.log())


class Timed(Coupling):
    """What is given is a time, which drawn numbers are not."""

    def forward(self, x: Any, t: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        return super().forward(x, t)

    def inverse(self, z: Any, t: Any = None) -> tuple[Any, Any]:
        """Latents to data."""
        return super().inverse(z, t)


class Folding(Coupling):
    """What is given is of any size, and has one mean."""

    def moves(self, kept: Any, given: Any) -> tuple[Any, Any]:
        """Of its mean."""
        return super().moves(kept, None if given is None else given.mean(-1, True).expand(-1, SIZE))


class Chosen(nn.Module):
    """Layers, of which some may be chosen by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling() for _ in range(3))

    def forward(self, x: Any, inds: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        total = x.new_zeros(len(x))
        for index in range(3) if inds is None else inds:
            x, ladj = self.layers[index](x)
            total = total + ladj
        return x, total


def coupling(defect: str = "") -> Coupling:
    """Under a volume."""
    return Coupling(defect)


def turned(defect: str = "") -> Turned:
    """Under a pressure."""
    return Turned(defect)


def density(defect: str = "") -> Density:
    """Under a volume."""
    return Density(defect)


SPECIMENS = (
    Specimen(
        "coupling",
        {
            "without-volume": ("map/log-det[context]",),
            "forgotten-back": ("map/inverse[context]",),
        },
    ),
    Specimen("turned", {"eight-tenths": ("map/log-det[context]",)}),
    Specimen("density", {"one-entry": ("density/mass[importance, context]",)}),
)
