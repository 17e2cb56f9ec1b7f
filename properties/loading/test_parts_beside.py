"""Lists of layers, and what lies beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.model import Status


class Layer(nn.Module):
    """An elementwise affine map."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        """The image, and its log-det."""
        return x * self.scale.exp() + self.shift, self.scale.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """The way back."""
        return (z - self.shift) * torch.exp(-self.scale)


class Flow(nn.Module):
    """Layers one after the other, with a scale of its own ``beside`` them, before the first; or that of a
    base, which the map does not use. ``bug``: the log-det of the last layer is forgotten.
    """

    event_shape = (3,)

    def __init__(self, beside: int = 0, bug: int = 0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Layer(), Layer()])
        self.own = nn.Parameter(torch.zeros(3))
        self.beside, self.bug = beside, bug

    def forward(self, x: Any) -> Any:
        """The image, and its log-det."""
        x, log_det = x * torch.exp(self.beside * self.own), torch.zeros(len(x), dtype=x.dtype)
        log_det = log_det + self.beside * self.own.sum()
        for index, block in enumerate(self.blocks):
            x, one = block(x)
            log_det = log_det + one * (not self.bug or index == 0)
        return x, log_det

    def inverse(self, z: Any) -> Any:
        """The way back."""
        for block in reversed(self.blocks):
            assert isinstance(block, Layer)
            z = block.inverse(z)
        return z * torch.exp(-self.beside * self.own)


@pytest.mark.parametrize("law", ["composition/parts", "composition/algebra[inverse]"])
def test_a_scale_beside_its_layers_is_no_part_of_them(law: str) -> None:
    """A list of layers is not all of a map that scales before them, though it starts as the identity."""
    verdict = check(f"{Path(__file__)}:Flow?beside=1", law)
    assert verdict.status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("bug", "status"), [(0, Status.HOLDS), (1, Status.VIOLATED)])
def test_parameters_that_no_map_uses_leave_the_layers_its_parts(bug: int, status: Status) -> None:
    """As those of a base do: a log-det that is forgotten is found among them."""
    verdict = check(f"{Path(__file__)}:Flow?bug={bug}", "composition/parts")
    assert verdict.status is status
    assert (verdict.size is not None) is (status is Status.VIOLATED)
