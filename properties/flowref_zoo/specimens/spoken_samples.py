"""Samplers that return numbers beside their points."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Field(nn.Module):
    """An affine map of noise; samples come with their log-densities."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.s, self.defect = nn.Parameter(torch.tensor([0.4, -0.3, 0.2])), defect

    def prior(self, z: Any) -> Any:
        """The log-density of noise."""
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)

    def log_prob(self, phi: Any) -> Any:
        """Log-densities of points."""
        return self.prior(phi * (-self.s).exp()) - self.s.sum()

    def sample(self, n: int) -> tuple[Any, Any]:
        """Points with their log-densities."""
        z = torch.randn(n, 3, dtype=self.s.dtype, device=self.s.device)
        sign = 1.0 if self.defect == "log-det-added" else -1.0
        return z * self.s.exp(), self.prior(z) + sign * self.s.sum()


def field(defect: str = "") -> nn.Module:
    """A density whose samples come with theirs."""
    return Field(defect)


class Base(Field):
    """A base whose forward draws points with their log-densities, and whose sampler drops these."""

    def forward(self, num_samples: int = 1) -> tuple[Any, Any]:
        """Points with their log-densities."""
        return super().sample(num_samples)

    def sample(self, num_samples: int = 1) -> Any:
        """Points alone."""
        return self.forward(num_samples)[0]


def base(defect: str = "") -> nn.Module:
    """A density whose forward draws."""
    return Base(defect)


class Named(Base):
    """A base whose code names what its forward returns."""

    def forward(self, num_samples: int = 1) -> tuple[Any, Any]:
        """Points with their log-densities."""
        z, log_p = super().forward(num_samples)
        return z, log_p


def named(defect: str = "") -> nn.Module:
    """A density whose forward draws, and names."""
    return Named(defect)


ADDED = {"log-det-added": ("density/change-of-variables[samples]",)}
SPECIMENS = (
    Specimen("field?beside=sample", ADDED),
    Specimen("base?beside=forward", ADDED),
    Specimen("named", ADDED),
)
