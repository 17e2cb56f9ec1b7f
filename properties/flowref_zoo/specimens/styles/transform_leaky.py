"""A leaky rectifier as a transform of torch.distributions."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import constraints
from torch.distributions.transforms import Transform

from flowref_zoo.specimens.specimen import Specimen


class LeakyReLUTransform(Transform):
    r"""$y = x$ where $x \ge 0$, $a x$ elsewhere."""

    domain = constraints.real
    codomain = constraints.real
    bijective = True
    sign = 1

    def __init__(self, slope: float = 0.25, defect: str = "") -> None:
        super().__init__()
        self.slope, self.defect = slope, defect
        if defect == "sign-attribute":
            self.sign = -1

    def __eq__(self, other: Any) -> Any:
        if self.defect == "eq":
            return True
        return isinstance(other, LeakyReLUTransform) and self.slope == other.slope

    def _call(self, x: Any) -> Any:
        return torch.where(x >= 0, x, self.slope * x)

    def _inverse(self, y: Any) -> Any:
        return torch.where(
            y <= 0 if self.defect == "inverse-comparison" else y >= 0, y, y / self.slope
        )

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        s = torch.where(x >= 0, torch.ones_like(x), torch.full_like(x, self.slope))
        if self.defect == "neg-log-det":
            s = torch.ones_like(x)
        if self.defect == "at-zero":
            s = torch.where(x == 0, torch.zeros_like(x), s)
        ld = s.log()
        return ld.sum(-1) if self.defect == "event-sum" else ld


def transform_leaky(defect: str = "") -> Any:
    return LeakyReLUTransform(defect=defect)


SPECIMENS = (
    Specimen(
        "transform_leaky",
        {
            "neg-log-det": ("map/log-det[inverse]",),
            "inverse-comparison": ("map/inverse[latents]",),
            "at-zero": ("map/finite",),
            "event-sum": ("shape/one-number-per-point[log-det]",),
            "sign-attribute": ("map/promised-jacobian[sign]",),
            "eq": ("effects/construction[equality]",),
        },
    ),
)
