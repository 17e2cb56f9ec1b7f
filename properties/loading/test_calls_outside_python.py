"""Maps whose calls are not plain Python on tensors are loaded and judged all the same."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.model import Status


class Scaled(nn.Module):
    """A scale per entry, in the part of Python that torch compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.5]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Data to latents."""
        return x * self.scale.exp(), self.scale.sum() * torch.ones(len(x), dtype=x.dtype)


def scripted() -> Any:
    """The same, compiled."""
    return torch.jit.script(Scaled())


class Arrays:
    """A triangular map that numpy computes from whatever array it is given, and the log-det with an
    offset.
    """

    event_shape = (2,)

    def __init__(self, offset: float) -> None:
        self.offset, self.lower = offset, np.array([[1.5, 0.0], [0.7, -0.4]])

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        out = np.asarray(x) @ self.lower.T
        return torch.from_numpy(out), torch.full((len(out),), math.log(0.6) + self.offset)


def test_a_scripted_module_is_judged() -> None:
    """A scripted module, which tells no signature, is loaded, and its log-det holds."""
    spec = f"{__file__}:scripted?event=3"
    assert check(spec, "map/log-det").status is Status.HOLDS


def test_a_map_that_refuses_graphs_raises_no_error() -> None:
    """A map in numpy refuses tensors with a graph: laws of derivatives do not apply, and differences
    judge its log-det.
    """
    assert check(Arrays(0.0), "map/log-det").status is Status.NOT_APPLICABLE
    assert check(Arrays(0.0), "map/log-det[differences]").status is Status.HOLDS
    assert check(Arrays(1e-3), "map/log-det[differences]").status is Status.VIOLATED


def held(bug: float, dtype: torch.dtype) -> SimpleNamespace:
    """A scale per entry as functions in a namespace."""
    scale = torch.tensor([0.3, -0.2, 0.5], dtype=dtype)

    def forward(x: Any) -> Any:
        return x * scale.exp(), (scale.sum() + bug).expand(len(x))

    return SimpleNamespace(forward=forward, inverse=lambda z: z * (-scale).exp(), event_shape=(3,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_in_a_namespace_are_judged(dtype: torch.dtype) -> None:
    """To a namespace there is no weak reference, and no cast reaches what its functions enclose: it
    is judged in the precision of that.
    """
    for law in ("map/log-det", "map/inverse"):
        assert check(held(0.0, dtype), law).status is Status.HOLDS
    assert check(held(1e-3, dtype), "map/log-det").status is Status.VIOLATED
