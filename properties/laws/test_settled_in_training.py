"""Iterations that calls in train mode go on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.model import Status


class Residual(nn.Module):
    """x + tanh(W x / s), with s above the norm of W as one step of a power iteration has it, which is kept in
    train mode; the inverse iterates to the fixed point. ``bug``: what its inverse is off by in train
    mode, relatively.
    """

    event_shape = (4,)

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.weight = nn.Parameter(torch.randn(4, 4, generator=generator))
        self.register_buffer("u", torch.ones(4) / 2)
        self.u: torch.Tensor
        self.bug = bug

    def residual(self, x: Any) -> Any:
        """The contraction."""
        with torch.no_grad():
            v = self.weight @ self.u
            u = self.weight.T @ v
            u = u / u.norm()
            if self.training:
                self.u.copy_(u)
        norm = (self.weight @ u).norm()
        return torch.tanh(x @ (self.weight / (2 * norm)).T)

    def forward(self, x: Any) -> Any:
        """Of the first call the same in both modes."""
        return x + self.residual(x)

    def inverse(self, z: Any) -> Any:
        """As many calls as it takes."""
        x = z
        for _ in range(60):
            x = z - self.residual(x)
        return x * (1 + self.bug) if self.training else x


@pytest.mark.parametrize(
    ("bug", "status"),
    [(0.0, Status.HOLDS), (1.0, Status.VIOLATED)],
    ids=["healthy", "off"],
)
def test_what_an_inverse_settles_is_no_difference_of_the_modes(bug: float, status: Status) -> None:
    """An inverse of sixty calls has a norm that one call of forward has not yet; one that is doubled in
    train mode is off all the same.
    """
    assert (
        check(f"{Path(__file__)}:Residual?bug={bug}", "same/train-mode[inverse]").status is status
    )
