"""Couplings that tell their log-det beside the map, that take tuples, or that ask for a context of
which nothing tells the shape.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref.zoo.specimens.specimen import Specimen
from flowref.zoo.specimens.spoken import SLIPS, Coupled


class Telling(Coupled):
    """Forward returns the latents alone; the log-det is a method of the input."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)[0]

    def log_abs_det(self, x: Any) -> Any:
        """The log-det at the input."""
        if self.defect == "log-det-of-the-value":
            x = self.onward(x)[0]
        return self.onward(x)[1]

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0]


class Leaving(Coupled):
    """Each call leaves its log-det in an attribute."""

    def __init__(self, hidden: int = 8, defect: str = "") -> None:
        super().__init__(hidden, defect)
        self.logdet: Any = None

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, self.logdet = self.onward(x)
        return z

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, self.logdet = self.back(z)
        return x


class Wrapped(Coupled):
    """Inputs and outputs are tuples of one tensor, as nodes of a graph pass them on."""

    def forward(self, x: Any, c: Any = None, rev: bool = False, jac: bool = True) -> Any:
        """Data to latents, or back."""
        y, ladj = self.back(x[0]) if rev else self.onward(x[0])
        if rev and self.defect == "jacobian-of-the-other-way":
            ladj = -ladj
        return (y,), ladj if jac else None


class Asking(nn.Module):
    r"""$z_a = x_a$, $z_b = x_b \odot e^{s(x_a, c)} + t(x_a, c)$ with the logarithm of the scale and the
    shift from a net of five numbers, of which two are the point's.
    """

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(2 + 3, 8), nn.Tanh(), nn.Linear(8, 4))

    def terms(self, a: Any, y: Any) -> tuple[Any, Any]:
        """The bounded log-scale and the shift."""
        if self.defect == "label-of-the-first-row":
            y = y[:1].expand_as(y)
        s, t = self.net(torch.cat([a, y], -1)).chunk(2, -1)
        return torch.tanh(s), t

    def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Data to latents, given labels."""
        a, b = x.chunk(2, -1)
        s, t = self.terms(a, y)
        z = torch.cat([a, b * s.exp() + t], -1)
        return z, s.mean(-1) if self.defect == "log-det-averaged" else s.sum(-1)

    def inverse(self, z: Any, y: Any) -> Any:
        """Latents to data, given labels."""
        a, b = z.chunk(2, -1)
        s, t = self.terms(a, -y if self.defect == "label-turned" else y)
        return torch.cat([a, (b - t) * (-s).exp()], -1)


def telling(defect: str = "") -> nn.Module:
    """A coupling with log_abs_det(x)."""
    return Telling(defect=defect)


def leaving(defect: str = "") -> nn.Module:
    """A coupling that leaves its log-det in an attribute."""
    return Leaving(defect=defect)


def wrapped(defect: str = "") -> nn.Module:
    """A coupling of tuples."""
    return Wrapped(defect=defect)


def asking(defect: str = "") -> nn.Module:
    """A coupling of four features and a label of three numbers."""
    return Asking(defect=defect)


SPECIMENS = (
    Specimen("telling", {**SLIPS, "log-det-of-the-value": ("bijection/log-det",)}),
    Specimen("leaving", {name: laws for name, laws in SLIPS.items() if "batch" not in name}),
    Specimen("wrapped", {**SLIPS, "jacobian-of-the-other-way": ("bijection/inverse-log-det",)}),
    Specimen(
        "asking",
        {
            "label-of-the-first-row": ("mode/rows-independent",),
            "log-det-averaged": ("bijection/log-det",),
            "label-turned": ("bijection/inverse-roundtrip",),
        },
    ),
)
