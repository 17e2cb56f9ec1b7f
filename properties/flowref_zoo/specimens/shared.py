"""A coupling whose network is made where the class is defined, and so belongs to all its objects."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Shift(nn.Module):
    """The second of two numbers moves by a function of the first."""

    event_shape = (2,)

    def __init__(self, net: nn.Module = nn.Linear(1, 1)) -> None:  # noqa: B008  the bug
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        a, b = x.chunk(2, 1)
        return torch.cat([a, b + torch.tanh(self.net(a))], 1), x.new_zeros(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z.chunk(2, 1)
        return torch.cat([a, b - torch.tanh(self.net(a))], 1), z.new_zeros(len(z))


class OfTheClass(Shift):
    """The same, with the network as an attribute of the class."""

    NET = nn.Linear(1, 1)

    def __init__(self) -> None:
        super().__init__(self.NET)


def shift(defect: str = "") -> nn.Module:
    """A shift with a network of its own, or one that is not."""
    if defect == "default-argument":
        return Shift()
    return OfTheClass() if defect == "class-attribute" else Shift(nn.Linear(1, 1))


SHARED = "effects/construction[sharing]"
SPECIMENS = (Specimen("shift", {"default-argument": (SHARED,), "class-attribute": (SHARED,)}),)
