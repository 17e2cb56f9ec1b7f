"""Flows that compute in numpy, between one tensor and the next: autograd and torch's
operators see nothing of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flowref_zoo.specimens.specimen import Specimen


class Standardized:
    r"""Times of measurements: $z = \operatorname{arsinh}((x + m) / s - m / s)$, a scaler with a large
    mean that cancels; ladj $-\log s - \frac12 \log(1 + z'^2)$ per entry.
    """

    features = 3
    double_only = True

    def __init__(self, mean: float = 1e6, scale: float = 5.0, defect: str = "") -> None:
        self.mean, self.scale, self.defect = mean, scale, defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z = (x.detach().cpu().numpy() + self.mean) / self.scale - self.mean / self.scale
        ladj = -0.5 * np.log1p(z * z)
        if self.defect != "scale-missing":
            ladj = ladj - np.log(self.scale)
        return torch.from_numpy(np.arcsinh(z)).to(x.device), torch.from_numpy(ladj.sum(-1)).to(
            x.device
        )

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data."""
        z = np.sinh(y.detach().cpu().numpy())
        if self.defect == "mean-rounded":
            z = z + 1e-5 / self.scale
        x = (z + self.mean / self.scale) * self.scale - self.mean
        ladj = (0.5 * np.log1p(z * z) + np.log(self.scale)).sum(-1)
        return torch.from_numpy(x).to(y.device), torch.from_numpy(ladj).to(y.device)


def standardized(defect: str = "") -> Standardized:
    """A scaler of three features in numpy."""
    return Standardized(defect=defect)


class Calibrated:
    r"""Log-odds of a probability that is taken away from 0 and 1: $u = 0.05 + 0.9\, \sigma(x)$ and
    $z = \log u - \log(1 - u)$, in one call.
    """

    features = 2

    def __init__(self, defect: str = "") -> None:
        self.defect = defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        given = x.detach().cpu().numpy()
        below, above = -np.logaddexp(0.0, given), -np.logaddexp(0.0, -given)
        u = 0.05 + 0.9 * np.exp(above)
        ladj = below + above - np.log(u) - np.log1p(-u)
        if self.defect != "factor-missing":
            ladj = ladj + np.log(0.9)
        if self.defect == "one-part-in-a-million":
            ladj = ladj * (1 + 1e-6)
        return torch.from_numpy(np.log(u) - np.log1p(-u)).to(x.device), torch.from_numpy(
            ladj.sum(-1)
        ).to(x.device)


def calibrated(defect: str = "") -> Calibrated:
    """Calibrated log-odds of two numbers."""
    return Calibrated(defect=defect)


SPECIMENS = (
    Specimen(
        "standardized",
        {
            "scale-missing": ("map/log-det[differences]", "map/log-det[antisymmetry]"),
            "mean-rounded": ("map/inverse",),
        },
    ),
    Specimen(
        "calibrated",
        {
            "factor-missing": ("map/log-det[differences]",),
            "one-part-in-a-million": ("map/log-det[differences]",),
        },
    ),
)
