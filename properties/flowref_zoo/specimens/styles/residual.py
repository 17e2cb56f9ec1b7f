"""A residual block under a spectral bound, inverted by fixed-point iteration."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


def bounded(w: Any) -> Any:
    return 0.9 * w / torch.linalg.matrix_norm(w, 2).clamp(min=0.9)


class IResNet(nn.Module):
    """$z = x + g(x)$ with a Lipschitz constant of $g$ below one; the log-det by the Jacobian."""

    event_shape = (3,)
    inverse_tolerance = 1e-06

    def __init__(self, d: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.a, self.b = nn.Linear(d, 12), nn.Linear(12, d)
        if defect == "not-contractive":
            with torch.no_grad():
                self.a.weight.mul_(4)
                self.b.weight.mul_(4)

    def weights(self) -> Any:
        if self.defect == "not-contractive":
            return self.a.weight, self.b.weight
        return bounded(self.a.weight), bounded(self.b.weight)

    def g(self, x: Any) -> Any:
        A, B = self.weights()
        return torch.tanh(x @ A.T + self.a.bias) @ B.T + self.b.bias

    def jac(self, x: Any) -> Any:
        A, B = self.weights()
        h = 1 - torch.tanh(x @ A.T + self.a.bias) ** 2
        return torch.einsum("ih,bh,hj->bij", B, h, A)

    def ld(self, x: Any) -> Any:
        J = self.jac(x)
        if self.defect in ("two-terms", "series-sign"):
            n = 2 if self.defect == "two-terms" else 60
            P, s = J, 0
            for k in range(1, n + 1):
                s = s + P.diagonal(dim1=1, dim2=2).sum(1) / k * (
                    1 if self.defect == "series-sign" else (-1) ** (k + 1)
                )
                P = P @ J
            return s
        return torch.linalg.slogdet(torch.eye(3, dtype=x.dtype, device=x.device) + J)[1]

    def forward(self, x: Any) -> Any:
        return x + self.g(x), self.ld(x)

    def inverse(self, z: Any) -> Any:
        x = z
        for _ in range(6 if self.defect == "few-iterations" else 400):
            n = z - self.g(x)
            if self.defect == "loose-stop" and (n - x).abs().mean() < 0.001:
                x = n
                break
            x = n
        return x, -self.ld(x)


def residual(defect: str = "") -> Any:
    torch.manual_seed(16)
    return IResNet(defect=defect)


SPECIMENS = (
    Specimen(
        "residual",
        {
            "few-iterations": ("map/inverse[latents]",),
            "not-contractive": ("map/inverse[latents]",),
            "two-terms": ("map/log-det",),
            "loose-stop": ("map/inverse[latents]",),
            "series-sign": ("map/log-det",),
        },
    ),
)
