"""Maps of vectors onto a simplex, as modules: their images have one number more."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref.zoo.specimens.specimen import Specimen


class LogRatio(nn.Module):
    """A softmax of n numbers and zero, with a temperature. ``surface``: the log-det is that of the volume of
    the simplex, and not of all coordinates but the last.
    """

    def __init__(self, surface: bool = False, defect: str = "") -> None:
        super().__init__()
        self.log_heat, self.defect = nn.Parameter(torch.tensor(0.3)), defect
        self.surface = surface

    def log_det(self, y: Any) -> Any:
        """The log-det at an image."""
        entries = y[..., :-1] if self.defect == "last-entry-missing" else y
        size = y.shape[-1] - 1
        heat = 0 if self.defect == "temperature-left-out" else size * self.log_heat
        return entries.log().sum(-1) - heat + 0.5 * self.surface * math.log(size + 1)

    def forward(self, x: Any) -> Any:
        """Onto the simplex."""
        y = nn.functional.pad(x * (-self.log_heat).exp(), (0, 1)).softmax(-1)
        log_det = self.log_det(y)
        if self.defect == "last-entry-of-the-first":
            y = torch.cat([y[..., :-1], 1 - y[..., :1]], -1)
        return y, log_det

    def inverse(self, y: Any) -> Any:
        """And back."""
        ratio = (y[..., :-1] / y[..., -1:]).log()
        heat = 1.0 if self.defect == "temperature-not-undone" else self.log_heat.exp()
        return ratio * heat, -self.log_det(y)


def log_ratio(defect: str = "") -> nn.Module:
    """Log-det by all coordinates but the last."""
    return LogRatio(defect=defect)


def log_ratio_surface(defect: str = "") -> nn.Module:
    """Log-det by the volume of the simplex."""
    return LogRatio(surface=True, defect=defect)


log_ratio.event_shape = log_ratio_surface.event_shape = (3,)  # type: ignore[attr-defined]  # an option

DEFECTS = {
    "last-entry-missing": ("bijection/log-det",),
    "last-entry-of-the-first": ("bijection/inverse-roundtrip",),
    "temperature-left-out": ("bijection/log-det",),
    "temperature-not-undone": ("bijection/forward-roundtrip",),
}
SPECIMENS = (Specimen("log_ratio", DEFECTS), Specimen("log_ratio_surface", DEFECTS))
