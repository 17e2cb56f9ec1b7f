"""Layers that are initialized by their first batch, or refuse to be called before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Initialized(nn.Module):
    r"""$z = (x + b)\, e^{w}$, set by the first batch in train mode to have mean 0 and variance 1."""

    event_shape = (3,)
    started: Any

    def __init__(self, refusing: bool = False, defect: str = "") -> None:
        super().__init__()
        self.refusing, self.defect = refusing, defect
        self.shift = nn.Parameter(torch.zeros(3))
        self.log_gain = nn.Parameter(torch.zeros(3))
        self.register_buffer("started", torch.tensor(False))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if self.training and not self.started:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_gain.copy_(-torch.log(x.std(0, correction=0) + 1e-6))
                self.started.fill_(True)
        if self.refusing and not self.started:
            raise RuntimeError("not initialized: call it on a batch in train mode first")
        ladj = self.log_gain.sum()
        match self.defect:
            case "log-det-sign":
                ladj = -ladj
            case "log-det-first-missing":
                ladj = self.log_gain[1:].sum()
        return (x + self.shift) * self.log_gain.exp(), ladj.expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if self.defect == "inverse-shift-first":
            return (z - self.shift) * (-self.log_gain).exp(), -self.log_gain.sum().expand(len(z))
        return z * (-self.log_gain).exp() - self.shift, -self.log_gain.sum().expand(len(z))


def initialized(defect: str = "") -> nn.Module:
    """An activation normalization."""
    return Initialized(defect=defect)


def refusing(defect: str = "") -> nn.Module:
    """An activation normalization that cannot be called before it has seen a batch."""
    return Initialized(refusing=True, defect=defect)


DEFECTS = {
    "log-det-sign": ("map/log-det",),
    "log-det-first-missing": ("map/log-det",),
    "inverse-shift-first": ("map/inverse",),
}
SPECIMENS = (Specimen("initialized", DEFECTS), Specimen("refusing", DEFECTS))
