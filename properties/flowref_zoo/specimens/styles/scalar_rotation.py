"""A rotation, a shear and a scale by the math module; no module of torch."""

from __future__ import annotations

import math
from typing import Any

import torch

from flowref_zoo.specimens.specimen import Specimen


class Rotate:
    r"""$a = 1.5 (c x_0 - s x_1)$ and $b = s x_0 + c x_1 + k (a / 1.5)^2$; ladj $\log 1.5$."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        self.t, self.k, self.defect = 0.6, 0.8, defect

    def forward(self, x: Any) -> Any:
        c, s = math.cos(self.t), math.sin(self.t)
        a = c * x[:, 0] - s * x[:, 1]
        b = s * x[:, 0] + c * x[:, 1]
        b = b + self.k * a**2
        z = torch.stack([a * 1.5, b], 1)
        if self.defect == "item":
            z = torch.tensor(z.tolist(), dtype=x.dtype, device=x.device).reshape(z.shape)
        ld = math.log(1.5)
        if self.defect == "det":
            ld = math.log(1.5 * (c * c - s * s))
        return z, x.new_full((len(x),), ld)

    def inverse(self, z: Any) -> Any:
        c, s = math.cos(self.t), math.sin(self.t)
        if self.defect == "degree":
            s = math.sin(self.t + 0.01)
        a = z[:, 0] / 1.5
        b = z[:, 1] if self.defect == "shear" else z[:, 1] - self.k * a**2
        return torch.stack([c * a + s * b, -s * a + c * b], 1), z.new_full(
            (len(z),), -math.log(1.5)
        )


def scalar_rotation(defect: str = "") -> Any:
    return Rotate(defect)


SPECIMENS = (
    Specimen(
        "scalar_rotation",
        {
            "degree": ("map/inverse[latents]",),
            "det": ("map/log-det",),
            "shear": ("map/inverse[latents]",),
        },
    ),
)
