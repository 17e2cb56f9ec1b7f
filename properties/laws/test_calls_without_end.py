"""A solver that no step of a nan satisfies is not waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.model import Status
from flowref.registry import parse_target

LAW = "map/finite[nan-row]"


class Halving(nn.Module):
    """x -> e^w x in Euler steps, which are halved until one differs little from two. ``spoilt``: a nan in
    one row is one of the error that all share.
    """

    event_shape = (2,)

    def __init__(self, spoilt: bool = False) -> None:
        super().__init__()
        self.w, self.spoilt = nn.Parameter(torch.tensor([0.3, -0.2])), spoilt

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The value and its log-det."""
        t, h, ladj = 0.0, 0.5, torch.zeros_like(x[:, 0])
        while t < 1:
            once, twice = x * (1 + h * self.w), x * (1 + h / 2 * self.w) ** 2
            error = (once - twice).abs().max() if self.spoilt else (once - twice).abs().nansum()
            if not error < 0.1 * (1 + x.nan_to_num().abs().max()):
                h = h / 2
                continue
            x, ladj = twice, ladj + 2 * (1 + h / 2 * self.w).log().sum()
            t = t + h
        return x, ladj


def endless() -> nn.Module:
    """One row that is no number keeps the others from coming back."""
    return Halving(spoilt=True)


def ends() -> nn.Module:
    """It leaves them alone."""
    return Halving()


@pytest.mark.parametrize(
    ("name", "status"), [("endless", Status.INCONCLUSIVE), ("ends", Status.HOLDS)]
)
def test_a_call_that_does_not_end_at_a_nan_is_said_not_waited_for(
    name: str, status: Status
) -> None:
    """It timed out, and the audit of a correct adaptive flow ended as a failure."""
    verdict = pair_verdict(parse_target(f"{Path(__file__)}:{name}"), LAW)
    assert verdict.status is status, verdict.reason
    assert ("does not end" in verdict.reason) is (name == "endless")
