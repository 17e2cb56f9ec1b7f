"""Maps whose log-dets are stretched, kept with axes of one, told for a whole batch, cast to single
precision, or broken off; and some that are called in ways of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled


class Rowless(nn.Module):
    r"""$z = e^{w} \odot x$; the log-det is the row $w$, of shape (1, 5), for all points."""

    def __init__(self, features: int = 5, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_gain = nn.Parameter(torch.randn(1, features) / 3)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        told = {"log-det-sign": -self.log_gain, "log-det-first-missing": self.log_gain[:, 1:]}
        return x * self.log_gain.exp(), told.get(self.defect, self.log_gain)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        turned = -1 if self.defect != "inverse-log-det-sign" else 1
        return z * (-self.log_gain).exp(), turned * self.log_gain


class KeptAxes(nn.Module):
    r"""$z = \operatorname{arsinh}(e^{w_c} x)$ of images; log-dets of shape (B, 1, 1, 1)."""

    event_shape = (3, 4, 4)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_gain = nn.Parameter(torch.randn(3, 1, 1) / 3)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.asinh(x * self.log_gain.exp())
        return z, self.log_det(z)

    def reverse(self, z: Any) -> Any:
        """Latents to data."""
        return torch.sinh(z) * (-self.log_gain).exp(), -self.log_det(z)

    def log_det(self, z: Any) -> Any:
        """The sum over all but the batch axis, or a bug in it."""
        gain = -self.log_gain if self.defect == "log-det-sign" else self.log_gain
        terms = gain.expand_as(z) - torch.log(torch.cosh(z))
        if self.defect == "log-det-first-missing":
            terms = terms[:, 1:]
        axes = (1,) if self.defect == "positions-kept" else (1, 2, 3)
        return terms.sum(axes, keepdim=True)


class OfBatch(nn.Module):
    r"""A convolution of one position; its log-det is one number for a batch, $B\,T \log|\det W|$, as
    in WaveGlow, and says so.
    """

    event_shape = (4, 6)
    ladj_form = "batch"

    def __init__(self, channels: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        self.weight = nn.Parameter(1.2 * rotation)

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Data to latents, or back without a log-det."""
        batch, _, positions = x.shape
        if reverse:
            return functional.conv1d(x, torch.linalg.inv(self.weight)[..., None])
        count = {"positions-missing": 1, "channels-for-positions": 4}.get(self.defect, positions)
        ladj = batch * count * torch.linalg.slogdet(self.weight)[1]
        return functional.conv1d(x, self.weight[..., None]), (
            -ladj if self.defect == "log-det-sign" else ladj
        )


class Synced(nn.Module):
    """A matrix whose inverse is kept, and computed again by sync()."""

    event_shape = (4,)

    def __init__(self, features: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(features, features))[0])
        self.register_buffer("weight_inv", torch.zeros(features, features))
        self.sync()

    def sync(self) -> None:
        """Compute the inverse of the weight, which a bug takes for a rotation for ever."""
        weight = self.weight.detach()
        self.weight_inv = weight.T.clone() if self.defect == "transposed" else weight.inverse()

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x @ self.weight, torch.linalg.slogdet(self.weight)[1].expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        ladj = torch.linalg.slogdet(self.weight_inv)[1].expand(len(z))
        return z @ self.weight_inv, -ladj if self.defect == "inverse-log-det-sign" else ladj


class Narrow(Coupled):
    """Log-dets are cast to single precision."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        off = 1.0001 if self.defect == "log-det-scaled" else 1.0
        return z, off * ladj.float()

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        return x * (1 + 1e-9) if self.defect == "inverse-off" else x, ladj.float()


class Named(Coupled):
    """A coupling whose methods have names of their own."""

    def to_noise(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def to_points(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class Columns(nn.Module):
    r"""$Z = W X + b$, of which the columns are the points."""

    def __init__(self, features: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.eye(features) + 0.3 * torch.randn(features, features))
        self.offset = nn.Parameter(torch.randn(features, 1))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        ladj = torch.linalg.slogdet(self.weight)[1].expand(x.shape[1])
        z = self.weight @ x + self.offset
        if self.defect == "centered":
            z = z - x.mean(1, keepdim=True)
        return z, -ladj if self.defect == "log-det-sign" else ladj

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        z = z if self.defect == "offset-kept" else z - self.offset
        x = torch.linalg.solve(self.weight, z)
        return x, -torch.linalg.slogdet(self.weight)[1].expand(z.shape[1])


class Series(nn.Module):
    r"""$z = x + g(x)$; its log-det is the power series of traces, broken off after some terms, and its
    inverse a fixed point. Where the number of terms is no attribute they are products with the Jacobian.
    """

    event_shape = (2,)

    def __init__(self, defect: str = "", told: bool = True) -> None:
        super().__init__()
        self.defect = defect
        normed = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(normed(nn.Linear(2, 8)), nn.Tanh(), normed(nn.Linear(8, 2)))
        if told:
            self.n_terms = 6

    def residual(self, x: Any) -> Any:
        """A contraction."""
        return self.net(x) / 2

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            g, ladj = self.residual(x), x.new_zeros(len(x))
            for basis in torch.eye(2, dtype=x.dtype, device=x.device):
                product = basis.expand_as(x)
                for order in range(1, 1 + getattr(self, "n_terms", 6)):
                    (product,) = torch.autograd.grad(g, x, product, create_graph=True)
                    ladj = ladj + self.sign(order) * (product * basis).sum(1) / order
        return x + g, ladj

    def sign(self, order: int) -> int:
        """Of the term of an order, or a bug in it."""
        if self.defect == "signs-forgotten":
            return 1
        even = order % 2 == (1 if self.defect == "log-det-sign" else 0)
        return -1 if even else 1

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x = z
        for _ in range(2 if self.defect == "few-steps" else 60):
            x = z - self.residual(x)
        return x


def columns(defect: str = "") -> nn.Module:
    """An affine map of columns."""
    return Columns(defect=defect)


def series(defect: str = "") -> nn.Module:
    """A residual map with six terms of its log-det."""
    return Series(defect=defect)


def untold_series(defect: str = "") -> nn.Module:
    """The same, and nothing tells how many."""
    return Series(defect=defect, told=False)


def rowless(defect: str = "") -> nn.Module:
    """A scaling with a log-det of shape (1, D)."""
    return Rowless(defect=defect)


def kept_axes(defect: str = "") -> nn.Module:
    """An elementwise map of images with log-dets of shape (B, 1, 1, 1)."""
    return KeptAxes(defect=defect)


def of_batch(defect: str = "") -> nn.Module:
    """A convolution with one log-det for a batch."""
    return OfBatch(defect=defect)


def synced(defect: str = "") -> nn.Module:
    """A matrix that keeps its inverse."""
    return Synced(defect=defect)


def narrow(defect: str = "") -> nn.Module:
    """A coupling with log-dets in single precision."""
    return Narrow(defect=defect)


def methods(defect: str = "") -> Any:
    """Two methods of a coupling."""
    named = Named(defect=defect)
    return named.to_noise, named.to_points


SERIES = {
    "log-det-sign": ("map/log-det",),
    "signs-forgotten": ("map/log-det",),
    "few-steps": ("map/inverse",),
}
SPECIMENS = (
    Specimen(
        "rowless",
        {
            "log-det-sign": ("map/log-det",),
            "log-det-first-missing": ("shape/one-number-per-point[log-det]", "map/log-det"),
            "inverse-log-det-sign": ("map/log-det[inverse]",),
        },
    ),
    Specimen(
        "kept_axes",
        {
            "log-det-sign": ("map/log-det",),
            "log-det-first-missing": ("map/log-det",),
            "positions-kept": ("shape/one-number-per-point[log-det]",),
        },
    ),
    Specimen(
        "of_batch",
        {
            "log-det-sign": ("map/log-det",),
            "positions-missing": ("map/log-det",),
            "channels-for-positions": ("map/log-det",),
        },
    ),
    Specimen(
        "synced",
        {
            "transposed": ("map/inverse",),
            "inverse-log-det-sign": ("map/log-det[inverse]",),
        },
    ),
    Specimen(
        "narrow",
        {
            **BUGS,
            "log-det-scaled": ("map/log-det",),
            "inverse-off": ("map/inverse",),
        },
    ),
    Specimen("methods", BUGS),
    Specimen(
        "columns",
        {
            "log-det-sign": ("map/log-det",),
            "offset-kept": ("map/inverse",),
            "centered": ("same/rows",),
        },
    ),
    Specimen("series", SERIES),
    Specimen("untold_series", SERIES),
)
