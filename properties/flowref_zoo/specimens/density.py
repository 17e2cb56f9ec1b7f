"""A logit preprocessing and a density in the plane, and the bugs made in constants and directions."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Logit(nn.Module):
    r"""$z = \operatorname{logit}(\alpha + (1 - 2\alpha) x)$ on $(0, 1)$. Source: Real NVP
    (arXiv:1605.08803), 4.1.
    """

    event_shape = (3,)
    domain = "unit"

    def __init__(self, alpha: float = 0.05, defect: str = "") -> None:
        super().__init__()
        self.alpha, self.defect = alpha, defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        p = self.alpha + (1 - 2 * self.alpha) * x
        factor = 0.0 if self.defect == "alpha-missing-in-log-det" else math.log(1 - 2 * self.alpha)
        slopes = -torch.log(p) - torch.log1p(-p)
        ladj = slopes.sum(-1) + factor if self.defect == "alpha-once" else (factor + slopes).sum(-1)
        return torch.log(p) - torch.log1p(-p), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = (torch.sigmoid(z) - self.alpha) / (1 - 2 * self.alpha)
        if self.defect == "inverse-rounded-to-bytes":
            x = torch.round(x * 255) / 255
        return x, (F.logsigmoid(z) + F.logsigmoid(-z) - math.log(1 - 2 * self.alpha)).sum(-1)


def logit(defect: str = "") -> nn.Module:
    """The logit preprocessing of three numbers."""
    return Logit(defect=defect)


class PlaneFlow(nn.Module):
    r"""$\log p(x) = \log N(f(x)) + \mathrm{ladj}$ with two couplings in the plane, sampled by
    $f^{-1}$.
    """

    event_shape = (2,)

    def __init__(self, hidden: int = 12, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2)) for _ in range(2)
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents; the coordinates change places after each coupling."""
        a, b = x[:, :1], x[:, 1:]
        ladj = x.new_zeros(len(x))
        for net in self.nets:
            s, t = net(a).chunk(2, -1)
            a, b = b * torch.tanh(s).exp() + t, a
            ladj = ladj + torch.tanh(s).squeeze(-1)
        return torch.cat([a, b], -1), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z[:, :1], z[:, 1:]
        ladj = z.new_zeros(len(z))
        for net in reversed(self.nets):
            s, t = net(b).chunk(2, -1)
            a, b = b, (a - t) * (-torch.tanh(s)).exp()
            ladj = ladj - torch.tanh(s).squeeze(-1)
        return torch.cat([a, b], -1), ladj

    def log_prob(self, x: Any) -> Any:
        """Log-density of each point."""
        z, ladj = self(x)
        base = -0.5 * (z**2).sum(-1) - math.log(2 * math.pi)
        match self.defect:
            case "two-pi-missing":
                base = base + math.log(2 * math.pi)
            case "dimension-missing":
                base = base + 0.5 * math.log(2 * math.pi)
            case "log-det-subtracted":
                ladj = -ladj
            case "log-det-averaged":
                ladj = ladj.mean()
        return base + ladj

    def sample(self, n: int) -> Any:
        """Draw ``n`` points."""
        like = next(self.parameters())
        z = torch.randn(n, 2, dtype=like.dtype, device=like.device)
        if self.defect == "temperature-in-samples":
            z = 0.8 * z
        return self(z)[0] if self.defect == "samples-pushed-forward" else self.inverse(z)[0]


def plane_flow(defect: str = "") -> nn.Module:
    """A density in the plane with its samples."""
    return PlaneFlow(defect=defect)


SPECIMENS = (
    Specimen(
        "logit",
        {
            "alpha-missing-in-log-det": ("map/log-det",),
            "alpha-once": ("map/log-det",),
            "inverse-rounded-to-bytes": ("map/inverse",),
        },
    ),
    Specimen(
        "plane_flow",
        {
            "two-pi-missing": ("density/mass", "density/change-of-variables"),
            "dimension-missing": ("density/mass", "density/change-of-variables"),
            "log-det-subtracted": ("density/mass", "density/change-of-variables"),
            "log-det-averaged": ("same/rows", "density/change-of-variables"),
            "temperature-in-samples": ("sampling/follows-density[ratios]",),
            "samples-pushed-forward": ("sampling/follows-density[ratios]",),
        },
    ),
)
