"""Derivatives within calls of the reference are what they are, in whatever mode the caller is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from flowref import reference as ref

DOUBLE = torch.float64


def well(x: Tensor) -> Tensor:
    """An energy."""
    return (x.square() - 1).square().sum(1)


def block(log_det: Any = None) -> ref.Residual:
    """A residual block."""
    return ref.Residual(ref.Contraction(2, (6,), 0.6), log_det=log_det)


MAPS: dict[str, tuple[Any, tuple[Tensor, ...]]] = {
    "CNF": (lambda: ref.CNF(ref.TimedMLP(2, (6,)), 0.5), ()),
    "CNF[hutchinson]": (
        lambda: ref.CNF(ref.TimedMLP(2, (6,)), 0.5, "hutchinson"),
        (torch.ones(3, 2, dtype=DOUBLE),),
    ),
    "OTFlow": (lambda: ref.OTFlow(ref.Potential(2, 4), 0.5), ()),
    "Residual": (block, ()),
    "Residual[series]": (
        lambda: block(ref.PowerSeries(4, 1)),
        (torch.ones(1, 3, 2, dtype=DOUBLE),),
    ),
    "Langevin": (lambda: ref.Langevin(well), (torch.zeros(3, 1, 2, dtype=DOUBLE),)),
}


@pytest.mark.parametrize("call", ["forward", "inverse"])
@pytest.mark.parametrize("name", MAPS)
def test_inference_mode_changes_nothing(name: str, call: str) -> None:
    """Neither for points that were made outside of it nor for those made in it, though nothing can be
    recorded there.
    """
    make, noise = MAPS[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layer = make().to(DOUBLE).eval()
    method = getattr(layer, call)
    x = torch.tensor([[0.4, -0.7], [1.1, 0.2], [0.0, 0.9]], dtype=DOUBLE)
    value, ladj = method(x, noise) if noise else method(x)
    with torch.inference_mode():
        for point in (x, x.clone()):
            there, beside = method(point, noise) if noise else method(point)
            torch.testing.assert_close(there, value)
            torch.testing.assert_close(beside, ladj)
    assert float(ladj.detach().abs().max()) > 1e-3
