"""Planar and contractive residual layers, and the bugs that are made in their determinants and
inverses.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Planar(nn.Module):
    r"""$z = x + \hat u \tanh(w \cdot x + b)$ with $\hat u$ moved so that $w \cdot \hat u > -1$.

    ladj: $\log(1 + (1 - h^2)\, w \cdot \hat u)$. Source: Rezende and Mohamed 2015
    (arXiv:1505.05770).
    """

    event_shape = (3,)

    def __init__(self, features: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.w = nn.Parameter(torch.randn(features))
        self.u = nn.Parameter(torch.randn(features))
        self.b = nn.Parameter(torch.full((), 0.5))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        product = self.w @ self.u
        u = self.u + (F.softplus(product) - 1 - product) * self.w / (self.w @ self.w)
        h = torch.tanh(x @ self.w + self.b)
        slope = 1 - h if self.defect == "slope-not-squared" else 1 - h**2
        if self.defect == "bias-missing-in-slope":
            slope = 1 - torch.tanh(x @ self.w) ** 2
        volume = slope * (product if self.defect == "raw-u-in-log-det" else self.w @ u)
        ladj = volume if self.defect == "log-missing" else torch.log((1 + volume).abs())
        return x + h[:, None] * u, ladj


def planar(defect: str = "") -> nn.Module:
    """A planar layer on three features, without an inverse."""
    return Planar(defect=defect)


class Residual(nn.Module):
    r"""$z = x + g(x)$ with $\operatorname{Lip}(g) < 1$; ladj $\log|\det(I + J_g)|$; inverse by
    fixed-point iteration.

    Source: Behrmann et al. 2019, Invertible Residual Networks (arXiv:1811.00995).
    """

    event_shape = (3,)
    inverse_tolerance = 1e-9

    def __init__(self, features: int = 3, hidden: int = 8, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.inner = nn.Parameter(torch.randn(hidden, features))
        self.outer = nn.Parameter(torch.randn(features, hidden))
        self.bias = nn.Parameter(torch.randn(hidden))

    def branch(self, x: Any) -> tuple[Any, Any]:
        """The contraction g(x) and the log-det of the identity plus its Jacobian."""
        inner, outer = (
            w * (0.8 / torch.linalg.matrix_norm(w, 2).clamp(min=0.8))
            for w in (self.inner, self.outer)
        )
        h = torch.tanh(x @ inner.T + self.bias)
        g = torch.einsum("ij,bj,jk->bik", outer, 1 - h**2, inner)
        if self.defect == "series-cut-at-two":
            square = (g @ g).diagonal(dim1=-2, dim2=-1).sum(-1)
            return h @ outer.T, g.diagonal(dim1=-2, dim2=-1).sum(-1) - square / 2
        return h @ outer.T, torch.linalg.slogdet(
            torch.eye(x.shape[-1], dtype=x.dtype, device=x.device) + g
        )[1]

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        g, ladj = self.branch(x)
        return x + g, ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data: x = z - g(x), iterated."""
        x = z
        for _ in range(8 if self.defect == "too-few-iterations" else 120):
            x = z - self.branch(x)[0]
        return x, -self.branch(z if self.defect == "inverse-log-det-at-z" else x)[1]


def residual(defect: str = "") -> nn.Module:
    """A contractive residual block on three features."""
    return Residual(defect=defect)


class Contraction(nn.Module):
    r"""$z = x + W \tanh(V x)$ with $\|W\|_2, \|V\|_2 \le 0.8$; ladj $\log|\det(I + J_g)|$."""

    event_shape = (2,)
    promises = MappingProxyType({"contraction": 0.64})

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.inner = nn.Parameter(normalized(torch.randn(8, 2)))
        self.outer = nn.Parameter(normalized(torch.randn(2, 8)))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        inner, outer = self.inner, self.outer
        if self.defect != "normalized-when-built":
            inner, outer = normalized(inner), normalized(outer)
        h = torch.tanh(x @ inner.T)
        slopes = torch.einsum("ij,bj,jk->bik", outer, 1 - h**2, inner)
        return x + h @ outer.T, torch.linalg.slogdet(
            torch.eye(2, dtype=x.dtype, device=x.device) + slopes
        )[1]


def normalized(weight: Any) -> Any:
    """A matrix of a norm of 0.8 at most."""
    return weight * (0.8 / torch.linalg.matrix_norm(weight, 2).clamp(min=0.8))


def contraction(defect: str = "") -> nn.Module:
    """A residual block that promises its constant."""
    return Contraction(defect)


SPECIMENS = (
    Specimen(
        "planar",
        {
            "slope-not-squared": ("map/log-det",),
            "bias-missing-in-slope": ("map/log-det",),
            "raw-u-in-log-det": ("map/log-det",),
            "log-missing": ("map/log-det",),
        },
    ),
    Specimen(
        "residual",
        {
            "series-cut-at-two": ("map/log-det",),
            "too-few-iterations": ("map/inverse",),
            "inverse-log-det-at-z": ("map/log-det[inverse]", "map/log-det[antisymmetry]"),
        },
    ),
    Specimen(
        "contraction",
        {"normalized-when-built": ("map/promised-jacobian[lipschitz, trained]",)},
    ),
)
