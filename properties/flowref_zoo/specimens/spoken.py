"""Couplings whose methods are called as in the repositories of others: which method, flag or word
goes back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

# The bugs that every spelling can have, and what shows them.
BUGS = {
    "log-det-sign": ("map/log-det",),
    "log-det-first-missing": ("map/log-det",),
    "log-det-over-batch": ("shape/one-number-per-point[log-det]", "map/log-det", "same/rows"),
    "inverse-shift-first": ("map/inverse",),
}


class Coupled(nn.Module):
    r"""$z_a = \operatorname{arsinh} x_a$, $z_b = x_b \odot e^{s(z_a)} + t(z_a)$; ladj
    $\sum_i s_i - \sum_i \log \cosh z_{a,i}$.
    """

    event_shape = (4,)

    def __init__(self, hidden: int = 8, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 4))

    def onward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        a = torch.asinh(a)
        s, t = self.scale_and_shift(a)
        terms = torch.cat([-torch.log(torch.cosh(a)), s], -1)
        return torch.cat([a, b * s.exp() + t], -1), self.log_det(terms)

    def back(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        s, t = self.scale_and_shift(a)
        x = b * (-s).exp() - t if self.defect == "inverse-shift-first" else (b - t) * (-s).exp()
        terms = torch.cat([-torch.log(torch.cosh(a)), s], -1)
        return torch.cat([torch.sinh(a), x], -1), -self.log_det(terms)

    def scale_and_shift(self, a: Any) -> tuple[Any, Any]:
        """The bounded log-scale and the shift."""
        s, t = self.net(a).chunk(2, -1)
        return torch.tanh(s), t

    def log_det(self, terms: Any) -> Any:
        """The log-det of terms, or a bug in it."""
        match self.defect:
            case "log-det-sign":
                return -terms.sum(-1)
            case "log-det-first-missing":
                return terms[:, 1:].sum(-1)
            case "log-det-over-batch":
                return terms.sum()
        return terms.sum(-1)


class WithoutLogDetBack(Coupled):
    """The way back is a value alone."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0]


class Backward(Coupled):
    """The way back is called backward."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def backward(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class Reverse(Coupled):
    """The way back is called reverse, and has an option."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def reverse(self, z: Any, temperature: float = 1.0) -> Any:
        """Latents to data."""
        return self.back(z * temperature)[0]


class Flagged(Coupled):
    """One method goes both ways, by a flag."""

    def forward(self, x: Any, cond: Any = None, reverse: bool = False) -> Any:
        """Data to latents, or back."""
        return self.back(x) if reverse else self.onward(x)


class Worded(Coupled):
    """One method goes both ways, by a word."""

    def forward(self, inputs: Any, cond_inputs: Any = None, mode: str = "direct") -> Any:
        """Data to latents, or back."""
        if mode == "direct":
            return self.onward(inputs)
        if mode == "inverse":
            return self.back(inputs)
        raise ValueError(mode)


class Signed(Coupled):
    """One method goes both ways, by a sign."""

    def forward(self, x: Any, direction: int = 1) -> Any:
        """Data to latents, or back."""
        return self.onward(x) if direction == 1 else self.back(x)


class Lettered(nn.Module):
    """Two methods called f and g, and no forward."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.map = Coupled(defect=defect)

    def f(self, x: Any) -> Any:
        """Data to latents."""
        return self.map.onward(x)

    def g(self, z: Any) -> Any:
        """Latents to data."""
        return self.map.back(z)[0]


class Named(nn.Module):
    """Two methods named after what they take and give, each returning a dictionary."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.map = Coupled(defect=defect)

    def x_to_z(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.map.onward(x)
        return {"z": z, "log-jac": ladj}

    def z_to_x(self, z: Any) -> Any:
        """Latents to data."""
        x, ladj = self.map.back(z)
        return {"x": x, "log-jac": ladj}


class Unfinished(Coupled):
    """The way back is left to whoever needs it."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def inverse(self, z: Any) -> Any:
        """Not there."""
        raise NotImplementedError("no closed form")


def without_log_det_back(defect: str = "") -> nn.Module:
    """A coupling whose inverse is a value alone."""
    return WithoutLogDetBack(defect=defect)


def backward(defect: str = "") -> nn.Module:
    """A coupling whose inverse is called backward."""
    return Backward(defect=defect)


def reverse(defect: str = "") -> nn.Module:
    """A coupling whose inverse is called reverse."""
    return Reverse(defect=defect)


def flagged(defect: str = "") -> nn.Module:
    """A coupling with forward(x, reverse=True)."""
    return Flagged(defect=defect)


def worded(defect: str = "") -> nn.Module:
    """A coupling with forward(x, mode='inverse')."""
    return Worded(defect=defect)


def signed(defect: str = "") -> nn.Module:
    """A coupling with forward(x, direction=-1)."""
    return Signed(defect=defect)


def lettered(defect: str = "") -> nn.Module:
    """A coupling with f(x) and g(z)."""
    return Lettered(defect=defect)


def named(defect: str = "") -> nn.Module:
    """A coupling with x_to_z(x) and z_to_x(z)."""
    return Named(defect=defect)


def unfinished(defect: str = "") -> nn.Module:
    """A coupling whose inverse raises NotImplementedError."""
    return Unfinished(defect=defect)


FORWARD_ONLY = {name: laws for name, laws in BUGS.items() if name != "inverse-shift-first"}
SPECIMENS = (
    Specimen("without_log_det_back", BUGS),
    Specimen("backward", BUGS),
    Specimen("reverse", BUGS),
    Specimen("flagged", BUGS),
    Specimen("worded", BUGS),
    Specimen("signed", BUGS),
    Specimen("lettered", BUGS),
    Specimen("named", BUGS),
    Specimen("unfinished", FORWARD_ONLY),
)
