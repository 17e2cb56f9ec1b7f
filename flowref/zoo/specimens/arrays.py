"""Flows that compute in numpy and scipy, between one tensor and the next: autograd and torch's
operators see nothing of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import special

from flowref.zoo.specimens.specimen import Specimen


class Standardized:
    r"""Times of measurements: $z = \operatorname{arsinh}((x + m) / s - m / s)$, a scaler with a large
    mean that cancels; ladj $-\log s - \frac12 \log(1 + z'^2)$ per entry.
    """

    features = 3

    def __init__(self, mean: float = 1e6, scale: float = 5.0, defect: str = "") -> None:
        self.mean, self.scale, self.defect = mean, scale, defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z = (x.detach().numpy() + self.mean) / self.scale - self.mean / self.scale
        ladj = -0.5 * np.log1p(z * z)
        if self.defect != "scale-missing":
            ladj = ladj - np.log(self.scale)
        return torch.from_numpy(np.arcsinh(z)), torch.from_numpy(ladj.sum(-1))

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data."""
        z = np.sinh(y.detach().numpy())
        if self.defect == "mean-rounded":
            z = z + 1e-5 / self.scale
        x = (z + self.mean / self.scale) * self.scale - self.mean
        ladj = (0.5 * np.log1p(z * z) + np.log(self.scale)).sum(-1)
        return torch.from_numpy(x), torch.from_numpy(ladj)


def standardized(defect: str = "") -> Standardized:
    """A scaler of three features in numpy."""
    return Standardized(defect=defect)


class Probit:
    r"""$u = 0.05 + 0.9\, \Phi(x)$ and $z = \Phi^{-1}(u)$, by `scipy.special`, in one call."""

    features = 2

    def __init__(self, defect: str = "") -> None:
        self.defect = defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        given = x.detach().numpy()
        z = special.ndtri(0.05 + 0.9 * special.ndtr(given))
        ladj = 0.5 * (z * z - given * given)
        if self.defect != "factor-missing":
            ladj = ladj + np.log(0.9)
        if self.defect == "one-part-in-a-million":
            ladj = ladj * (1 + 1e-6)
        return torch.from_numpy(z), torch.from_numpy(ladj.sum(-1))


def probit(defect: str = "") -> Probit:
    """A squeezed probit of two numbers."""
    return Probit(defect=defect)


SPECIMENS = (
    Specimen(
        "standardized",
        {
            "scale-missing": ("bijection/log-det-by-differences", "bijection/log-det-antisymmetry"),
            "mean-rounded": ("bijection/inverse-roundtrip",),
        },
    ),
    Specimen(
        "probit",
        {
            "factor-missing": ("bijection/log-det-by-differences",),
            "one-part-in-a-million": ("bijection/log-det-by-differences",),
        },
    ),
)
