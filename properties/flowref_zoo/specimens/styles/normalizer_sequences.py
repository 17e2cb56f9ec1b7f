"""Normalization of sequences over rows and positions that says what it is."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


class ChannelStandardize(nn.Module):
    r"""$y = g (x - \mu) / \sqrt{v + \epsilon} + b$ per channel of ``(N, C, L)``."""

    event_shape = (2, 7)
    mean: Any
    var: Any
    kind = "batch-norm"

    def __init__(self, c: int = 2, defect: str = "") -> None:
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(c, 1)), nn.Parameter(torch.zeros(c, 1))
        self.register_buffer("mean", torch.zeros(c, 1))
        self.register_buffer("var", torch.ones(c, 1))
        self.defect = defect
        if defect == "not-buffer":
            del self.mean, self.var
            self.mean, self.var = torch.zeros(c, 1), torch.ones(c, 1)

    def forward(self, x: Any) -> Any:
        if self.defect == "channels-by-length" and x.shape[2] == len(self.g):
            return self.normalized(x.transpose(1, 2)).transpose(1, 2)
        return self.normalized(x)

    def normalized(self, x: Any) -> Any:
        if self.training:
            m = x.mean((0, 2), keepdim=False)[:, None]
            v = ((x - m) ** 2).mean((0, 2))[:, None]
            if self.defect == "per-row":
                m = x.mean(2, keepdim=True)
                v = x.var(2, keepdim=True, unbiased=False)
            if self.defect == "center-only-eval":
                pass
            with torch.no_grad():
                n = x.shape[0] * x.shape[2]
                mm = m.mean(0) if m.dim() == 3 else m
                vv = v.mean(0) if v.dim() == 3 else v
                self.mean = 0.9 * self.mean + 0.1 * mm
                self.var = 0.9 * self.var + 0.1 * vv * n / (n - 1)
        else:
            m, v = self.mean, self.var
        if self.defect == "order":
            m, v = self.mean, self.var
        if self.defect == "center-only-eval" and (not self.training):
            return (x - m) * self.g + self.b
        return (x - m) / torch.sqrt(v + 1e-05) * self.g + self.b


def normalizer_sequences(defect: str = "") -> Any:
    return ChannelStandardize(defect=defect)


SPECIMENS = (
    Specimen(
        "normalizer_sequences",
        {
            "per-row": ("batch-norm/train-map",),
            "channels-by-length": ("batch-norm/train-map",),
            "not-buffer": ("same/saved[reload]",),
            "center-only-eval": ("batch-norm/statistics",),
        },
    ),
)
