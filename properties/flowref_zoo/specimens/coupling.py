"""Coupling layers on vectors and images, with the bugs that are made in writing them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class AffineCoupling(nn.Module):
    r"""$z_a = x_a,\; z_b = x_b \odot e^{s(x_a)} + t(x_a)$ with $s = 2 \tanh(\cdot / 2)$; ladj
    $\sum_i s_i$.
    """

    event_shape = (4,)

    def __init__(self, features: int = 4, hidden: int = 16, defect: str = "") -> None:
        super().__init__()
        self.split, self.defect = features // 2, defect
        moved = features - self.split
        layers: list[nn.Module] = [
            nn.Linear(self.split, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 2 * moved),
        ]
        if defect == "batch-statistics-in-conditioner":
            layers.insert(1, nn.BatchNorm1d(hidden, track_running_stats=False))
        self.net = nn.Sequential(*layers)

    def scale_and_shift(self, a: Any) -> tuple[Any, Any]:
        """The bounded log-scale and the shift."""
        s, t = self.net(a).chunk(2, -1)
        return 2 * torch.tanh(s / 2), t

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.defect == "input-mutated":
            x.clamp_(-1e4, 1e4)
        a, b = x[:, : self.split], x[:, self.split :]
        s, t = self.scale_and_shift(a)
        if self.defect == "scale-clamped-forward":
            s = s.clamp(max=0.5)
        scale = torch.exp(s) + 1e-6 if self.defect == "eps-forward-only" else torch.exp(s)
        z = torch.cat([a, b * scale + t], -1)
        if self.defect == "float32-inside":
            z = z.float().to(x.dtype)
        if self.defect == "hidden-noise":
            z = z + 1e-6 * torch.randn_like(z)
        return z, self.log_det(s, x)

    def log_det(self, s: Any, x: Any) -> Any:
        """The log-det, or one of the bugs in it."""
        ladj = s.sum(-1)
        match self.defect:
            case "log-det-sign":
                return -ladj
            case "log-det-mean":
                return s.mean(-1)
            case "log-det-one-part-in-a-million":
                return ladj * (1 + 1e-6)
            case "log-det-last-digits-in-half":
                fine = s / 64
                return (s - fine).sum(-1) + fine.half().sum(-1).to(s)
            case "log-det-first-missing":
                return s[:, 1:].sum(-1)
            case "log-det-detached":
                return ladj.detach()
            case "log-det-column":
                return ladj[:, None]
            case "log-det-squeezed":
                return ladj.squeeze()
            case "log-det-over-batch":
                return ladj.mean().expand(len(x))
            case "log-det-beyond-ten":
                return torch.where(x.abs().amax(-1) > 10, ladj - 0.05, ladj)
            case "log-det-in-eval":
                return ladj if self.training else 0.99 * ladj
        return ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z[:, : self.split], z[:, self.split :]
        s, t = self.scale_and_shift(a)
        back = b * torch.exp(-s) - t if self.defect == "inverse-order" else (b - t) * torch.exp(-s)
        x = torch.cat([a, back], -1)
        if self.defect == "inverse-detached":
            x = x.detach()
        return x, s.sum(-1) if self.defect == "inverse-log-det-sign" else -s.sum(-1)


def affine_coupling(defect: str = "") -> nn.Module:
    """An affine coupling layer on four features."""
    return AffineCoupling(defect=defect)


class CheckerboardCoupling(nn.Module):
    r"""Masked coupling of an image, $s = (1 - m)\, c \tanh(\cdot)$, $t = (1 - m)(\cdot)$, both of
    $m \odot x$.
    """

    event_shape = (2, 4, 4)
    mask: Any

    def __init__(self, channels: int = 2, size: int = 4, hidden: int = 8, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        grid = torch.arange(size)
        self.register_buffer("mask", ((grid[:, None] + grid) % 2).to(torch.get_default_dtype()))
        self.net = nn.Sequential(
            nn.Conv2d(channels, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, 2 * channels, 3, padding=1),
        )
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.7))

    def scale_and_shift(self, x: Any) -> tuple[Any, Any]:
        """Log-scale and shift, zero where the mask keeps the input."""
        s, t = self.net(x if self.defect == "input-unmasked" else x * self.mask).chunk(2, 1)
        free = 1 - self.mask
        s = self.scale * torch.tanh(s)
        return (s if self.defect == "scale-unmasked" else s * free), t * free

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        s, t = self.scale_and_shift(x)
        ladj = (
            s.mean((2, 3)).sum(1) if self.defect == "log-det-mean-over-pixels" else s.sum((1, 2, 3))
        )
        if self.defect == "log-det-border-missing":
            ladj = s[:, :, :-1].sum((1, 2, 3))
        return x * s.exp() + t, ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s, t = self.scale_and_shift(z)
        return (z - t) * (-s).exp(), -s.sum((1, 2, 3))


def checkerboard_coupling(defect: str = "") -> nn.Module:
    """A checkerboard coupling of a 4x4 image with two channels."""
    return CheckerboardCoupling(defect=defect)


SPECIMENS = (
    Specimen(
        "affine_coupling",
        {
            "log-det-sign": ("map/log-det",),
            "log-det-mean": ("map/log-det",),
            "log-det-one-part-in-a-million": ("map/log-det",),
            "log-det-last-digits-in-half": ("map/log-det",),
            "log-det-first-missing": ("map/log-det",),
            "log-det-detached": ("gradient/parameters[log-det]",),
            "log-det-column": ("shape/one-number-per-point[log-det]",),
            "log-det-squeezed": ("shape/one-number-per-point[log-det]",),
            "log-det-over-batch": ("map/log-det", "same/rows"),
            "log-det-beyond-ten": ("map/log-det",),
            "log-det-in-eval": ("map/log-det",),
            "scale-clamped-forward": ("map/inverse",),
            "eps-forward-only": ("map/inverse", "map/log-det"),
            "inverse-order": ("map/inverse",),
            "inverse-detached": ("map/inverse-jacobian",),
            "inverse-log-det-sign": ("map/log-det[inverse]", "map/log-det[antisymmetry]"),
            "input-mutated": ("effects/process[input]",),
            "float32-inside": ("dtype/follows",),
            "hidden-noise": ("same/history[repeat]",),
            "batch-statistics-in-conditioner": ("same/rows",),
        },
    ),
    Specimen(
        "checkerboard_coupling",
        {
            "input-unmasked": ("map/inverse", "map/log-det"),
            "scale-unmasked": ("map/inverse", "map/log-det"),
            "log-det-mean-over-pixels": ("map/log-det",),
            "log-det-border-missing": ("map/log-det",),
        },
    ),
)
