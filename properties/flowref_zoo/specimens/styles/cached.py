"""A linear map that keeps inverse and log-det in eval mode until the weight changes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class CachedLinear(nn.Module):
    r"""$z = W x$; ladj $\log |\det W|$."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.W = nn.Parameter(torch.eye(3) + 0.3 * torch.randn(3, 3))
        self.defect = defect
        self.cache: Any = None

    def train(self, mode: bool = True) -> Any:
        if mode and self.defect != "stale-train":
            self.cache = None
        return super().train(mode)

    def load_state_dict(self, *a: Any, **k: Any) -> Any:
        if self.defect != "stale-load":
            self.cache = None
        return super().load_state_dict(*a, **k)

    def get(self) -> Any:
        if self.training and self.defect != "cache-in-train":
            return self.W.inverse(), torch.linalg.slogdet(self.W)[1]
        if (
            self.defect not in ("stale-train", "stale-load", "cache-in-train")
            and self.cache is not None
            and (self.cache[2] != self.W._version)
        ):
            self.cache = None
        if self.cache is None:
            ld = torch.linalg.slogdet(self.W)[1].detach()
            self.cache = (
                self.W.inverse().detach(),
                -ld if self.defect == "cache-log-det-sign" else ld,
                self.W._version,
            )
        if torch.is_grad_enabled() and self.defect not in ("cache-in-train",):
            return self.W.inverse(), torch.linalg.slogdet(self.W)[1]
        return self.cache[0], self.cache[1]

    def forward(self, x: Any) -> Any:
        _V, ld = self.get()
        if self.defect == "cache-batch":
            if not hasattr(self, "_ld"):
                self._ld = ld.expand(len(x))
            return x @ self.W.T, self._ld[: len(x)] if len(self._ld) >= len(x) else self._ld
        return x @ self.W.T, ld.expand(len(x))

    def inverse(self, z: Any) -> Any:
        V, ld = self.get()
        return z @ V.T, -ld.expand(len(z))


def cached(defect: str = "") -> Any:
    torch.manual_seed(23)
    return CachedLinear(defect)


SPECIMENS = (
    Specimen(
        "cached",
        {
            "cache-in-train": ("map/inverse[latents]",),
            "stale-load": ("same/saved[restore]",),
            "cache-log-det-sign": ("same/manner[grad-modes]",),
            "cache-batch": ("map/log-det",),
            "stale-train": ("same/history[optimizer-step]",),
        },
    ),
)
