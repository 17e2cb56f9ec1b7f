"""A convolutional coupling on a checkerboard."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn

from flowref_zoo.specimens.specimen import Specimen


class Checker(nn.Module):
    r"""$z = x e^{(1 - m) s} + (1 - m) t$ with $s, t$ convolutions of $m x$; ladj $\sum (1 - m) s$."""

    event_shape = (1, 4, 4)
    m: Any
    m2: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 3, padding=1)
        )
        r = torch.arange(4)
        self.register_buffer(
            "m", ((r[:, None] + r[None]) % 2).to(torch.get_default_dtype())[None, None]
        )
        self.register_buffer(
            "m2",
            (r % 2).to(torch.get_default_dtype())[None, None, :, None].expand(1, 1, 4, 4).clone(),
        )
        self.defect = defect

    def st(self, x: Any, m: Any) -> Any:
        s, t = self.net(x if self.defect == "pad" else x * m).chunk(2, 1)
        return torch.tanh(s), t

    def forward(self, x: Any) -> Any:
        m = self.m
        s, t = self.st(x, m)
        if self.defect != "log-det-kept":
            s = s * (1 - m)
        y = x * (s * (1 - m)).exp() + (t if self.defect == "bias-kept" else t * (1 - m))
        return y, s.sum((1, 2)).mean(1) if self.defect == "sum-axes" else s.sum((1, 2, 3))

    def inverse(self, y: Any) -> Any:
        m = self.m2 if self.defect == "rows" else self.m
        s, t = self.st(y, m)
        return (y - t * (1 - m)) * (-s * (1 - m)).exp(), -(s * (1 - m)).sum((1, 2, 3))


def checkerboard(defect: str = "") -> Any:
    torch.manual_seed(37)
    return Checker(defect)


SPECIMENS = (
    Specimen(
        "checkerboard",
        {
            "rows": ("map/inverse[latents]",),
            "log-det-kept": ("map/log-det",),
            "sum-axes": ("map/log-det",),
            "pad": ("map/inverse[latents]",),
            "bias-kept": ("map/inverse[latents]",),
        },
    ),
)
