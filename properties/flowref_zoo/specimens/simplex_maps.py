"""Maps of vectors onto a simplex, as modules, whose images have one number more; and maps of points of one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


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


class Turned(nn.Module):
    """The same the other way round: data on a simplex, normalized by their log-ratios."""

    domain, event_shape, latent_shape = "simplex", (4,), (3,)

    def __init__(self, surface: bool = False, defect: str = "") -> None:
        super().__init__()
        self.ratio = LogRatio(surface, defect)

    def forward(self, x: Any) -> Any:
        """To vectors."""
        return self.ratio.inverse(x)

    def inverse(self, z: Any) -> Any:
        """And back."""
        return self.ratio(z)


class Powers(nn.Module):
    """From a simplex to itself: every entry to a power, and divided by their sum. With y = x^a / s the log-det by
    all coordinates but the last is n log a + sum_i (log y_i - log x_i), over all n + 1 entries, and that by the
    volume of the simplex is the same.
    """

    domain, codomain, event_shape = "simplex", "simplex", (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.log_power, self.defect = nn.Parameter(torch.tensor(0.3)), defect

    def mapped(self, x: Any, log_power: Any) -> Any:
        """The entries to a power, with the log-det."""
        y = (log_power.exp() * x.log()).softmax(-1)
        count = x.shape[-1] - (self.defect != "one-entry-too-many")
        return y, count * log_power + (y.log() - x.log()).sum(-1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.mapped(x, self.log_power)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.mapped(
            z, self.log_power if self.defect == "power-not-undone" else -self.log_power
        )


def log_ratio_of(defect: str = "") -> nn.Module:
    """Log-det by all coordinates but the last."""
    return Turned(defect=defect)


def log_ratio_of_surface(defect: str = "") -> nn.Module:
    """Log-det by the volume of the simplex."""
    return Turned(surface=True, defect=defect)


def powers(defect: str = "") -> nn.Module:
    """From a simplex to itself."""
    return Powers(defect)


log_ratio.event_shape = log_ratio_surface.event_shape = (3,)  # type: ignore[attr-defined]  # an option

DEFECTS = {
    "last-entry-missing": ("map/log-det",),
    "last-entry-of-the-first": ("map/inverse",),
    "temperature-left-out": ("map/log-det",),
    "temperature-not-undone": ("map/inverse[latents]",),
}
TURNED = {
    "last-entry-missing": ("map/log-det",),
    "last-entry-of-the-first": ("map/inverse",),
    "temperature-left-out": ("map/log-det[inverse]",),
    "temperature-not-undone": ("map/inverse",),
}
SPECIMENS = (
    Specimen("log_ratio", DEFECTS),
    Specimen("log_ratio_surface", DEFECTS),
    Specimen("log_ratio_of", TURNED),
    Specimen("log_ratio_of_surface", TURNED),
    Specimen(
        "powers",
        {
            "one-entry-too-many": ("map/log-det",),
            "power-not-undone": ("map/inverse",),
        },
    ),
)
