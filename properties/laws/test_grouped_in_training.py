"""What train mode computes in another order, in the precision of the object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.model import Status


class Reversed(nn.Module):
    """A linear map in single precision, whose way back and log-det are summed from the last term on in
    train mode. ``bug``: by how much they are off there, relatively.
    """

    event_shape = (4,)

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(3)) + 2 * torch.eye(4)
        self.weight = nn.Parameter(weight.tril())
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """The same in both modes."""
        logs = self.weight.diagonal().abs().log().expand(len(x), 4)
        return x @ self.weight.tril(), self.summed(logs)

    def inverse(self, z: Any) -> Any:
        """The way back."""
        back = self.weight.tril().double().inverse().float()
        return self.summed(z[:, None, :] * back.T)

    def summed(self, terms: Any) -> Any:
        """The sum along the last axis."""
        order = range(terms.shape[-1])
        total = torch.zeros_like(terms[..., 0])
        for at in reversed(order) if self.training else order:
            total = total + terms[..., at]
        return total * (1 + self.bug) if self.training else total


@pytest.mark.parametrize("law", ["same/train-mode[inverse]", "same/train-mode[log-det]"])
@pytest.mark.parametrize(
    ("bug", "status"), [(0.0, Status.HOLDS), (1e-4, Status.VIOLATED)], ids=["healthy", "off"]
)
def test_the_order_of_a_sum_is_no_difference(law: str, bug: float, status: Status) -> None:
    """A unit in the last place of single precision is none; a ten-thousandth is one."""
    assert check(f"{Path(__file__)}:Reversed?bug={bug}&dtype=float32", law).status is status
