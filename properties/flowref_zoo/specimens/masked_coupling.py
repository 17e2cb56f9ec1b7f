"""A masked coupling layer that says what it keeps, with the bugs that are made in masks,
conditioners and their start.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class MaskedCoupling(nn.Module):
    r"""$z = m \odot x + (1 - m) \odot (x e^s + t)$ with $s = (1 - m)\, c \tanh(\cdot)$ and $t$ of
    $m \odot x$.
    """

    coupling = "affine"
    masked = True
    mask: Any

    def __init__(self, features: int = 5, hidden: int = 16, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = (features,), defect
        kept = torch.arange(features) % 2 == 0
        self.kept = torch.ones(features, dtype=torch.bool) if defect == "everything-kept" else kept
        self.register_buffer("mask", kept)
        last = nn.Linear(hidden, 2 * features)
        layers: list[nn.Module] = [nn.Linear(features, hidden), nn.ReLU(), last]
        if defect == "batch-norm-in-conditioner":
            layers.insert(1, nn.BatchNorm1d(hidden, track_running_stats=False))
        self.conditioner = nn.Sequential(*layers)
        self.scale = nn.Parameter(torch.ones(()))
        if defect in ("dead-start", "start-at-zero"):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        if defect == "dead-start":
            nn.init.zeros_(self.scale)

    def parts(self, x: Any) -> tuple[Any, Any]:
        """Log-scale and shift of every entry, zero where it is kept."""
        seen = x if self.defect == "conditioner-sees-all" else torch.where(self.mask, x, 0.0)
        raw, shift = self.conditioner(seen).chunk(2, -1)
        if self.defect == "mask-after-exponential":
            return raw, shift
        return torch.where(self.mask, 0.0, self.scale * torch.tanh(raw)), torch.where(
            self.mask, 0.0, shift
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        s, t = self.parts(x)
        if self.defect == "mask-after-exponential":
            free = 1 - self.mask.to(x.dtype)
            return x * self.mask + free * (x * s.exp() + t), (free * s).sum(-1)
        z = torch.where(self.mask, x, x * s.exp() + t)
        if self.defect == "kept-part-through-log":
            z = torch.where(self.mask, x.abs().clamp(min=1e-12).log().exp() * x.sign(), z)
        if self.defect == "square-added":
            z = z + torch.where(self.mask, 0.0, 1e-6 * x.tanh() ** 2)
        return z, s.mean(-1) if self.defect == "log-det-mean" else s.sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s, t = self.parts(z)
        if self.defect == "mask-after-exponential":
            free = 1 - self.mask.to(z.dtype)
            return z * self.mask + free * (z - t) * (-s).exp(), -(free * s).sum(-1)
        return torch.where(self.mask, z, (z - t) * (-s).exp()), -s.sum(-1)


def masked_coupling(defect: str = "") -> nn.Module:
    """A masked affine coupling on five features."""
    return MaskedCoupling(defect=defect)


SPECIMENS = (
    Specimen(
        "masked_coupling",
        {
            "everything-kept": ("coupling/masks[partition]",),
            "batch-norm-in-conditioner": ("same/rows[conditioner]",),
            "dead-start": ("gradient/reaches-parameters[conditioner-start]",),
            "conditioner-sees-all": ("coupling/pattern[conditioner]",),
            "mask-after-exponential": ("coupling/pattern[kept-parameters]",),
            "kept-part-through-log": ("coupling/pattern[kept-part]",),
            "square-added": ("coupling/closed-form",),
            "log-det-mean": ("coupling/closed-form",),
        },
    ),
)
