"""Gradients of losses that are no ordinary numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.model import Status


class Density(nn.Module):
    """A normal density with a penalty of one parameter: 1 / u, or the square root of u - u0, at u0."""

    event_shape = (2,)

    def __init__(self, u: float, root: int) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.tensor(u, dtype=torch.float64))
        self.start, self.root = u, root

    def log_prob(self, x: Any) -> Any:
        """The log-density, which the penalty is taken from."""
        penalty = (self.u - self.start).abs().sqrt() if self.root else 1 / self.u
        return -0.5 * (x**2).sum(-1) - penalty


@pytest.mark.parametrize(
    ("options", "accused"),
    [("u=1e-200&root=0", False), ("u=1e-2&root=0", False), ("u=1e-2&root=1", True)],
    ids=["a loss of 1e200", "ordinary", "an infinite slope"],
)
def test_a_loss_whose_square_overflows_may_have_any_gradient(options: str, accused: bool) -> None:
    """One over u has the slope one over its square, which is infinite at 1e-200, where the loss is not; at an
    ordinary loss such a slope is accused.
    """
    verdict = check(f"{Path(__file__)}:Density?{options}", "gradient/finite")
    assert (verdict.status is Status.VIOLATED) == accused
