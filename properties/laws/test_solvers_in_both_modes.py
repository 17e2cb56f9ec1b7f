"""What solvers of differential equations leave behind, and where their steps depend on the mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Solved(nn.Module):
    """A map of which the way back is off by a little in train mode, and a buffer that counts."""

    event_shape = (2,)

    def __init__(self, counter: str = "_num_evals", off: float = 0.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.7, -0.4]))
        self.counter, self.off = counter, off
        self.register_buffer(counter, torch.tensor(0.0))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        getattr(self, self.counter).add_(6)
        return x * self.scale.exp(), self.scale.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        off = self.off if self.training else 0.0
        return z * (-self.scale).exp() + off, -self.scale.sum().expand(len(z))


@pytest.mark.parametrize(
    ("counter", "expected"),
    [
        ("_num_evals", Status.HOLDS),
        ("nfe", Status.HOLDS),
        ("seen", Status.VIOLATED),
        ("num_batches", Status.VIOLATED),
    ],
)
def test_a_count_of_evaluations_is_no_impurity(counter: str, expected: Status) -> None:
    """Solvers count how often they evaluate their field; whatever else moves in eval mode is told."""
    assert check(Solved(counter), "effects/state[eval]", QUICK).status is expected


@pytest.mark.parametrize(
    ("tolerance", "off", "expected"),
    [
        (0.0, 1e-9, Status.VIOLATED),
        (1e-7, 1e-9, Status.HOLDS),
        (1e-7, 1e-5, Status.VIOLATED),
    ],
)
def test_a_way_back_to_a_tolerance_may_end_elsewhere_in_train_mode(
    tolerance: float, off: float, expected: Status
) -> None:
    """Steps that adapt follow what is integrated beside the state in train mode, a penalty say."""
    model: Any = Solved(off=off)
    if tolerance:
        model.inverse_tolerance = tolerance
    assert check(model, "same/train-mode[inverse]", QUICK).status is expected
