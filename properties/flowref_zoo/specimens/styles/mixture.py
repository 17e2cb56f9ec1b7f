"""A mixture of normals in the plane with Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class GMM(nn.Module):
    r"""$p(x) = \sum_k w_k N(x; \mu_k, L_k L_k^T)$."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.w = nn.Parameter(torch.tensor([0.5, -0.4, 0.9]))
        self.mu = nn.Parameter(torch.tensor([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.5]]))
        self.L = nn.Parameter(
            torch.tensor(
                [[[0.7, 0.0], [0.5, 0.6]], [[1.0, 0.0], [-0.6, 0.8]], [[0.5, 0.0], [0.1, 1.1]]]
            )
        )

    def tril(self) -> Any:
        return self.L.tril(-1) + torch.diag_embed(self.L.diagonal(dim1=1, dim2=2).abs() + 0.001)

    def log_prob(self, x: Any) -> Any:
        L = self.tril()
        d = (x[:, None] - self.mu).unsqueeze(-1)
        u = torch.linalg.solve_triangular(L.expand(len(x), -1, -1, -1), d, upper=False).squeeze(-1)
        ld = L.diagonal(dim1=1, dim2=2).log().sum(1)
        if self.defect == "logdet-chol":
            ld = 2 * ld
        k = 1 if self.defect == "constant" else 2
        lp = -0.5 * (u**2).sum(-1) - ld - 0.5 * k * math.log(2 * math.pi)
        lw = self.w if self.defect == "not-normalized" else self.w.log_softmax(0)
        if self.defect == "sum-log":
            return lp.logsumexp(1) + lw.mean()
        return (lp + lw).logsumexp(1)

    @torch.no_grad()
    def sample(self, n: Any) -> Any:
        if self.defect == "seed":
            torch.manual_seed(1234)
        p = self.w.softmax(0)
        if self.defect == "sample-uniform":
            p = torch.ones_like(p) / 3
        k = torch.multinomial(p, n, replacement=True)
        if self.defect == "sample-n":
            k = k[:1].expand(n)
        L = self.tril()[k]
        if self.defect == "sample-transposed":
            L = L.transpose(1, 2)
        e = torch.randn(n, 2, dtype=self.mu.dtype, device=self.mu.device)
        return self.mu[k] + (L @ e[..., None])[..., 0]


def mixture(defect: str = "") -> Any:
    return GMM(defect)


SPECIMENS = (
    Specimen(
        "mixture",
        {
            "not-normalized": ("density/mass",),
            "logdet-chol": ("density/mass",),
            "sum-log": ("density/mass",),
            "sample-uniform": ("sampling/follows-density[ratios]",),
            "sample-transposed": ("sampling/follows-density[ratios]",),
            "seed": ("effects/process[settings]",),
            "constant": ("density/mass",),
            "sample-n": ("sampling/follows-density[ratios]",),
        },
    ),
)
