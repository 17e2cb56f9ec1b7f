"""A linear map as permutation, unit lower and upper triangle with signs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class LU(nn.Module):
    r"""$z = P L U x + b$; ladj $\sum_i \log |u_{ii}|$."""

    event_shape = (4,)
    perm: Any
    sign: Any

    def __init__(self, d: int = 4, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.l = nn.Parameter(torch.randn(d, d) * 0.3)
        self.u = nn.Parameter(torch.randn(d, d) * 0.3)
        self.raw = nn.Parameter(torch.randn(d))
        self.bias = nn.Parameter(torch.randn(d))
        self.register_buffer("perm", torch.eye(d)[torch.tensor([2, 0, 3, 1])])
        self.register_buffer("sign", torch.tensor([1.0, -1.0, 1.0, 1.0]))

    def mats(self) -> Any:
        eye = torch.eye(len(self.raw), dtype=self.raw.dtype, device=self.raw.device)
        diag = nn.functional.softplus(self.raw) + 0.001
        diag = diag * self.sign.to(diag.dtype)
        return self.l.tril(-1) + eye, self.u.triu(1) + torch.diag(diag), diag

    def ld(self, diag: Any) -> Any:
        if self.defect == "log-det-l":
            return self.u.triu(1).sum()
        if self.defect == "softplus-log-det":
            return self.raw.abs().log().sum()
        if self.defect == "abs":
            return diag.log().sum()
        return diag.abs().log().sum()

    def forward(self, x: Any) -> Any:
        L, U, diag = self.mats()
        P = self.perm.to(x.dtype)
        return x @ (P @ L @ U).T + self.bias, self.ld(diag).expand(x.shape[0])

    def inverse(self, z: Any) -> Any:
        L, U, diag = self.mats()
        P = self.perm.to(z.dtype)
        if self.defect != "bias-order":
            z = z - self.bias
        z = z @ (P.T if self.defect == "permutation-transposed" else P)
        y = torch.linalg.solve_triangular(L, z.T, upper=False, unitriangular=True)
        x = torch.linalg.solve_triangular(
            U, y, upper=True, unitriangular=self.defect == "unit-diagonal"
        ).T
        if self.defect == "bias-order":
            x = x - self.bias
        return x, -self.ld(diag).expand(z.shape[0])


def triangles(defect: str = "") -> Any:
    torch.manual_seed(10)
    return LU(defect=defect)


SPECIMENS = (
    Specimen(
        "triangles",
        {
            "unit-diagonal": ("map/inverse[latents]",),
            "log-det-l": ("map/log-det[inverse]",),
            "permutation-transposed": ("map/inverse[latents]",),
            "softplus-log-det": ("map/log-det[inverse]",),
            "bias-order": ("map/inverse[latents]",),
            "abs": ("map/log-det[inverse]",),
        },
    ),
)
