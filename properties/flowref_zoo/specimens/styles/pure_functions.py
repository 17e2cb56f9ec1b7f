"""Pure functions of parameters, bound by functools.partial in a named tuple."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import torch

from flowref_zoo.specimens.specimen import Specimen

Flow = namedtuple("Flow", "forward inverse event_shape")


def layer_f(p: Any, x: Any) -> Any:
    a, b = x[:, :2], x[:, 2:]
    h = torch.tanh(a @ p["w"].to(x.dtype)) @ p["v"].to(x.dtype)
    s, t = torch.tanh(h[:, :2]), h[:, 2:]
    return torch.cat([a, b * s.exp() + t], 1), s.sum(1)


def layer_g(p: Any, z: Any) -> Any:
    a, b = z[:, :2], z[:, 2:]
    h = torch.tanh(a @ p["w"].to(z.dtype)) @ p["v"].to(z.dtype)
    s, t = torch.tanh(h[:, :2]), h[:, 2:]
    return torch.cat([a, (b - t) * (-s).exp()], 1), -s.sum(1)


def fwd(ps: Any, defect: str, x: Any) -> Any:
    ld: Any = 0
    for i, p in enumerate(ps):
        x, term = layer_f(p, x)
        if defect != "log-det-first" or i == 0:
            ld = ld + term
        x = x.flip(1)
    return x, ld.detach() if defect == "stop-gradient" else ld


def inv(ps: Any, defect: str, z: Any) -> Any:
    ld: Any = 0
    for i, p in enumerate(reversed(ps) if defect != "swap" else ps):
        if defect != "permutation" or i == 0:
            z = z.flip(1)
        z, term = layer_g(p, z)
        ld = ld + term
    return z, ld


def pure_functions(defect: str = "") -> Any:
    g = torch.Generator().manual_seed(6)
    ps = [
        {"w": torch.randn(2, 8, generator=g), "v": 0.5 * torch.randn(8, 4, generator=g)}
        for _ in range(3)
    ]
    return Flow(partial(fwd, ps, defect), partial(inv, ps, defect), (4,))


SPECIMENS = (
    Specimen(
        "pure_functions",
        {
            "swap": ("map/inverse[latents]",),
            "log-det-first": ("map/log-det",),
            "stop-gradient": ("gradient/input[log-det]",),
            "permutation": ("map/inverse[latents]",),
        },
    ),
)
