"""Maps whose values and log-dets come back in other forms than a pair with a number per point."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled


class Column(Coupled):
    """Log-dets are columns."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, ladj.reshape(-1, 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        return x, ladj.reshape(-1, 1)


class Scaling(nn.Module):
    r"""$z = e^{w} \odot x + b$; the log-det is one number for all points, $\sum_i w_i$."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_gain = nn.Parameter(torch.randn(4) / 2)
        self.offset = nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp() + self.offset, self.log_det(x)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x = (z - self.offset) * (-self.log_gain).exp()
        return x, -self.log_det(x)

    def log_det(self, x: Any) -> Any:
        """The one log-det, or a bug in it."""
        match self.defect:
            case "log-det-sign":
                return -self.log_gain.sum()
            case "log-det-first-missing":
                return self.log_gain[1:].sum()
            case "log-det-over-batch":
                return self.log_gain.expand_as(x).sum(0)
        return self.log_gain.sum()


class PerEntry(nn.Module):
    r"""$z_i = \operatorname{arsinh}(e^{w_i} x_i)$; the log-det comes back entry by entry,
    $w_i - \log \cosh z_i$.
    """

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_gain = nn.Parameter(torch.randn(4) / 4)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.asinh(x * self.log_gain.exp())
        return z, self.terms(z)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return torch.sinh(z) * (-self.log_gain).exp(), -self.terms(z)

    def terms(self, z: Any) -> Any:
        """The logarithm of each slope, or a bug in it."""
        match self.defect:
            case "log-det-sign":
                return torch.log(torch.cosh(z)) - self.log_gain
            case "log-det-first-missing":
                return -torch.log(torch.cosh(z))
            case "log-det-over-batch":
                return (self.log_gain - torch.log(torch.cosh(z))).sum(0)
        return self.log_gain - torch.log(torch.cosh(z))


class Additive(nn.Module):
    r"""$z_a = x_a,\; z_b = x_b + t(x_a)$, without a word about the log-det, which is 0."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        return torch.cat([a, b + self.net(a)], -1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        t = self.net(a)
        if self.defect == "shift-over-batch":
            t = t.mean(0)
        return torch.cat([a, b + t if self.defect == "shift-sign" else b - t], -1)


class Leveled(Coupled):
    """The latents are a list of two parts, and go back as a list."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return [z[:, :1], z[:, 1:]], ladj

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        return self.back(torch.cat(latents, -1))


class Stepwise(Coupled):
    """It returns every state on the way, from the data to the latents."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return [x, z], ladj

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        return [z, x], ladj


class Listed(Coupled):
    """Its log-dets are a list, one of each step."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        y, other = self.onward(z.flip(-1) / 8)
        return y, [ladj, other - 4 * torch.log(x.new_full((len(x),), 8.0))]

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        y, _ = self.back(z)
        return self.back((8 * y).flip(-1))[0]


class Joint(nn.Module):
    """A model of the plane: forward returns the latents, the log-density of the prior, and the
    log-det.
    """

    event_shape = (2,)
    returns = "z,log_prior,ladj"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        z = torch.cat([a, b * torch.tanh(s).exp() + t], -1)
        prior = torch.distributions.Normal(x.new_zeros(2), x.new_ones(2))
        log_prior = prior.log_prob(z)
        ladj = torch.tanh(s).squeeze(-1)
        match self.defect:
            case "log-det-sign":
                ladj = -ladj
            case "prior-constant-missing":
                log_prior = log_prior + 0.5 * math.log(2 * math.pi)
            case "prior-over-batch":
                return z, log_prior.sum().expand(len(x)), ladj
        return z, log_prior.sum(-1), ladj

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        return torch.cat([a, (b - t) * (-torch.tanh(s)).exp()], -1)


class ColumnDensity(nn.Module):
    """A density whose log_prob is a column, with samples."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.mean = nn.Parameter(torch.randn(2))
        self.log_std = nn.Parameter(torch.randn(2) / 4)

    def log_probs(self, x: Any) -> Any:
        """Log-density of each point."""
        z = (x - self.mean) * (-self.log_std).exp()
        terms = -0.5 * z**2 - self.log_std - 0.5 * math.log(2 * math.pi)
        match self.defect:
            case "scale-sign":
                terms = terms + 2 * self.log_std
            case "first-missing":
                terms = terms[:, 1:]
            case "over-batch":
                return terms.sum(-1, keepdim=True).mean(0, keepdim=True).expand(len(x), 1)
        return terms.sum(-1, keepdim=True)

    def sample(self, n: int) -> Any:
        """Draw ``n`` points."""
        return self.mean + self.log_std.exp() * torch.randn(
            n, 2, dtype=self.mean.dtype, device=self.mean.device
        )


def column(defect: str = "") -> nn.Module:
    """A coupling with log-dets of shape (B, 1)."""
    return Column(defect=defect)


def scaling(defect: str = "") -> nn.Module:
    """A scaling with one log-det for all rows."""
    return Scaling(defect=defect)


def per_entry(defect: str = "") -> nn.Module:
    """An elementwise map with a log-det per entry."""
    return PerEntry(defect=defect)


def additive(defect: str = "") -> nn.Module:
    """An additive coupling without a log-det."""
    return Additive(defect=defect)


def leveled(defect: str = "") -> nn.Module:
    """A coupling with a list of latents."""
    return Leveled(defect=defect)


def stepwise(defect: str = "") -> nn.Module:
    """A coupling that returns its states."""
    return Stepwise(defect=defect)


def listed(defect: str = "") -> nn.Module:
    """Two couplings with a list of log-dets."""
    return Listed(defect=defect)


def joint(defect: str = "") -> nn.Module:
    """A model whose forward returns three things."""
    return Joint(defect=defect)


def column_density(defect: str = "") -> nn.Module:
    """A density with log_probs of shape (B, 1)."""
    return ColumnDensity(defect=defect)


FORMS = {name: laws for name, laws in BUGS.items() if name != "inverse-shift-first"}
DENSE = ("density/mass", "same/rows", "sampling/follows-density[ratios]")
SPECIMENS = (
    Specimen("column", BUGS),
    Specimen("scaling", FORMS),
    Specimen("per_entry", FORMS),
    Specimen(
        "additive",
        {
            "shift-sign": ("map/inverse",),
            "shift-over-batch": ("map/inverse", "same/rows"),
        },
    ),
    Specimen("leveled", BUGS),
    Specimen("stepwise", BUGS),
    Specimen("listed", BUGS),
    Specimen(
        "joint",
        {
            "log-det-sign": ("map/log-det",),
            "prior-constant-missing": DENSE,
            "prior-over-batch": DENSE,
        },
    ),
    Specimen("column_density", {"scale-sign": DENSE, "first-missing": DENSE, "over-batch": DENSE}),
)
