"""Three layers as closures, without a class."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from flowref_zoo.specimens.specimen import Specimen


def onward(A: Any, b: Any, x: Any) -> Any:
    y = x @ A.to(x.dtype).T + b.to(x.dtype)
    ladj = torch.linalg.slogdet(A.to(x.dtype))[1] - 0.5 * torch.log1p(y**2).sum(1)
    return torch.asinh(y), ladj


def back(A: Any, b: Any, z: Any) -> Any:
    return (torch.sinh(z) - b.to(z.dtype)) @ A.to(z.dtype).inverse().T


def closures(defect: str = "") -> Any:
    g = torch.Generator().manual_seed(3)
    As = [torch.eye(3) + 0.4 * torch.randn(3, 3, generator=g) for _ in range(3)]
    bs = [torch.randn(3, generator=g) for _ in range(3)]
    fs: list[Any] = []
    invs: list[Any] = []
    for A, b in zip(As, bs, strict=True):
        fs.append(partial(onward, A, b))
        # A closure in a loop reads the last weights that the loop has had.
        invs.append((lambda z: back(A, b, z)) if defect == "late" else partial(back, A, b))  # noqa: B023

    def forward(x: Any) -> Any:
        ld = x.new_zeros(len(x))
        for i, f in enumerate(fs):
            x, term = f(x)
            if defect == "shared-log-det" and i > 0:
                term = (
                    term
                    - torch.linalg.slogdet(As[i].to(x.dtype))[1]
                    + torch.linalg.slogdet(As[0].to(x.dtype))[1]
                )
            ld = ld - term if defect == "sign" and i == 2 else ld + term
        return x, ld

    def inverse(z: Any) -> Any:
        seq = list(reversed(invs))
        if defect == "zip-short":
            seq = [f for f, _ in zip(seq, range(2), strict=False)]
        for f in seq:
            z = f(z)
        return z, -forward(z)[1]

    return SimpleNamespace(forward=forward, inverse=inverse, event_shape=(3,))


SPECIMENS = (
    Specimen(
        "closures",
        {
            "late": ("map/inverse[latents]",),
            "shared-log-det": ("map/log-det[inverse]",),
            "zip-short": ("map/inverse[latents]",),
            "sign": ("map/log-det[inverse]",),
        },
    ),
)
