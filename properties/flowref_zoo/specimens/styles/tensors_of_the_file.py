"""Parameters in a dictionary of the file, made in single precision when the file is imported: no cast
of the object reaches them, nor what was computed from them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

_DRAW = torch.Generator().manual_seed(11)
PARAMS = {
    "w": torch.eye(3) + 0.4 * torch.randn(3, 3, generator=_DRAW),
    "log_s": 0.3 * torch.randn(3, generator=_DRAW),
    "b": torch.randn(3, generator=_DRAW),
}
W_INV = torch.inverse(PARAMS["w"])
LOG_DET_W = torch.linalg.slogdet(PARAMS["w"])[1]
TENTH = torch.tensor(0.1)


class OfTheFile(nn.Module):
    """z = 2 exp(s) (W x) + b / 10, of tensors that the file keeps."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect

    def log_det(self, x: Any) -> Any:
        """The same for every point."""
        two = 0.693 if self.defect == "digits" else math.log(2.0)
        scales = PARAMS["log_s"].sum() if self.defect != "log-scale-first" else PARAMS["log_s"][0]
        return (LOG_DET_W.to(x) + scales + 3 * two).expand(len(x))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = 2 * (x @ PARAMS["w"].T.to(x)) * PARAMS["log_s"].to(x).exp() + TENTH * PARAMS["b"].to(x)
        return z, self.log_det(x)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        shift = 0.1 if self.defect != "other-shift" else 0.101
        x = (z - shift * PARAMS["b"].to(z)) * (-PARAMS["log_s"].to(z)).exp() / 2
        w = W_INV if self.defect != "transposed" else W_INV.T
        return x @ w.T.to(z), -self.log_det(z)


def tensors_of_the_file(defect: str = "") -> nn.Module:
    """An affine map of three features."""
    return OfTheFile(defect)


SPECIMENS = (
    Specimen(
        "tensors_of_the_file",
        {
            "digits": ("map/log-det",),
            "log-scale-first": ("map/log-det",),
            "other-shift": ("map/inverse",),
            "transposed": ("map/inverse",),
        },
    ),
)
