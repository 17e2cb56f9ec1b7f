"""A sinh-arcsinh transform of torch.distributions."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import Transform, constraints

from flowref_zoo.specimens.specimen import Specimen


class SinhArcsinh(Transform):
    r"""$y = \sinh(\delta \operatorname{arsinh} x + \epsilon)$."""

    domain = codomain = constraints.real
    bijective, sign = True, 1

    def __init__(
        self, eps: float = 0.4, delta: float = 0.7, defect: str = "", cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.eps, self.delta, self.defect = eps, delta, defect
        self._last = None

    def _asinh(self, x: Any) -> Any:
        return torch.log(x + torch.sqrt(x * x + 1)) if self.defect == "asinh" else torch.asinh(x)

    def _call(self, x: Any) -> Any:
        y = torch.sinh(self.delta * self._asinh(x) + self.eps)
        if self.defect == "cache":
            self._last = x
        return y

    def _inverse(self, y: Any) -> Any:
        if self.defect == "cache" and self._last is not None and (self._last.shape == y.shape):
            return self._last
        if self.defect == "delta":
            return torch.sinh(torch.asinh(y) / self.delta - self.eps)
        return torch.sinh((self._asinh(y) - self.eps) / self.delta)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        t = self.delta * torch.asinh(x) + self.eps
        import math

        lc = (
            torch.log(torch.cosh(t))
            if self.defect == "log-det-cosh"
            else t.abs() + torch.log1p(torch.exp(-2 * t.abs())) - math.log(2)
        )
        out = math.log(self.delta) + lc
        return out if self.defect == "no-dx" else out - 0.5 * torch.log1p(x * x)


def transform_sinh(defect: str = "") -> Any:
    return SinhArcsinh(defect=defect)


SPECIMENS = (
    Specimen(
        "transform_sinh",
        {
            "no-dx": ("map/log-det[inverse]",),
            "delta": ("map/inverse[latents]",),
            "cache": ("same/history[other-calls]",),
        },
    ),
)
