"""Arsinh of a scaled and shifted number, as a transform of torch.distributions in each coordinate."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import IndependentTransform, Transform, constraints

from flowref_zoo.specimens.specimen import Specimen


class ShiftedArsinh(Transform):
    r"""$y = \operatorname{arsinh}(e^a x + b)$; near $x = 0$ the way back, $e^{-a} (\sinh y - b)$, loses
    all but a few digits, and no two layouts of its input lose the same.
    """

    domain = codomain = constraints.real
    bijective, sign = True, 1

    def __init__(self, a: Any, b: Any, defect: str = "", cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.a, self.b, self.defect = a, b, defect

    def _call(self, x: Any) -> Any:
        return torch.asinh(self.a.exp() * x + self.b)

    def _inverse(self, y: Any) -> Any:
        return (torch.sinh(y) - (0 if self.defect == "shift-kept" else self.b)) * (-self.a).exp()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The log-det of each number."""
        v = y if self.defect == "of-the-value" else self.a.exp() * x + self.b
        return self.a - 0.5 * torch.log1p(v**2)


def transform_shifted(defect: str = "") -> Any:
    """Three coordinates."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, generator=generator) for _ in range(2))
    return IndependentTransform(ShiftedArsinh(0.3 * a, b, defect), 1)


SPECIMENS = (
    Specimen(
        "transform_shifted",
        {"shift-kept": ("map/inverse",), "of-the-value": ("map/log-det",)},
    ),
)
