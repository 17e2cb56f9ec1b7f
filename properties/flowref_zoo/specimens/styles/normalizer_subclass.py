"""A subclass of torch's batch normalization."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class CumulativeBatchNorm(nn.BatchNorm1d):
    """As the base class, with a hook before and after."""

    event_shape = (5,)

    def __init__(self, c: Any, defect: str = "") -> None:
        super().__init__(c)
        self.defect = defect

    def forward(self, x: Any) -> Any:
        if self.defect == "clip":
            x = x.clamp(-3, 3)
        if self.defect == "center-twice" and self.training:
            x = x - x.mean(0)
        y = super().forward(x)
        if self.defect == "reset" and int(self.num_batches_tracked or 0) > 3:
            self.reset_running_stats()
        if self.defect == "train-leak":
            self.train()
        if self.defect == "noise" and self.training:
            y = y + 0.001 * torch.randn_like(y)
        return y


def normalizer_subclass(defect: str = "") -> Any:
    return CumulativeBatchNorm(5, defect)


SPECIMENS = (
    Specimen(
        "normalizer_subclass",
        {
            "clip": ("batch-norm/statistics[buffers]",),
            "center-twice": ("batch-norm/statistics[buffers]",),
            "reset": ("batch-norm/statistics[buffers]",),
            "train-leak": ("batch-norm/eval-map",),
            "noise": ("batch-norm/numerics[offset]",),
        },
    ),
)
