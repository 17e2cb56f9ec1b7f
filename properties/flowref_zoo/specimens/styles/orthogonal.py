"""A scaled rotation by the exponential of a skew matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Orth(nn.Module):
    """$z = e^s e^{A - A^T} x$; ladj $D s$."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.randn(4, 4) * 0.4)
        self.s = nn.Parameter(torch.tensor(0.25))
        self.defect = defect

    @property
    def Q(self) -> Any:
        A = self.raw + self.raw.T if self.defect == "skew" else self.raw - self.raw.T
        return torch.linalg.matrix_exp(A)

    def forward(self, x: Any) -> Any:
        return x @ self.Q.T * self.s.exp(), (
            self.s if self.defect == "scale-log-det" else 4 * self.s
        ).expand(len(x))

    def inverse(self, z: Any) -> Any:
        Q = self.Q
        if self.defect == "exp-half":
            A = self.raw - self.raw.T
            Q = torch.linalg.matrix_exp(A / 2)
        if self.defect == "reg":
            return torch.linalg.solve(
                Q + 0.0001 * torch.eye(4, dtype=z.dtype, device=z.device), z.T
            ).T * (-self.s).exp(), -4 * self.s.expand(len(z))
        return z @ torch.linalg.inv(Q).T * (-self.s).exp(), (-4 * self.s).expand(len(z))


def orthogonal(defect: str = "") -> Any:
    torch.manual_seed(39)
    return Orth(defect)


SPECIMENS = (
    Specimen(
        "orthogonal",
        {
            "skew": ("map/log-det[inverse]",),
            "exp-half": ("map/inverse[latents]",),
            "scale-log-det": ("map/log-det",),
            "reg": ("map/inverse[latents]",),
        },
    ),
)
