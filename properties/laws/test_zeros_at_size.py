"""A map that does not move with one of many coordinates is found without its Jacobian; one that is flat
by rounding is not accused.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, loading
from flowref.checking import Settings
from flowref.laws.common.structure import WHOLE
from flowref.model import Status, Verdict

FEATURES = WHOLE + 16
LAW = "map/singular-jacobian"


class Scaled(nn.Module):
    """Each entry is scaled by itself, but for the first."""

    event_shape = (FEATURES,)

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first = first
        self.log_scale = nn.Parameter(0.1 * torch.randn(FEATURES))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        y, ladj = x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))
        head, rest = y[:, :1], y[:, 1:]
        if self.first == "clamped":
            head = head.clamp(max=-40.0)
        elif self.first == "saturated":
            ladj = ladj + 2 * (head - nn.functional.softplus(2 * head) + 0.6931471805599453)[:, 0]
            head = head.tanh()
        elif self.first == "dropped":  # the first output is a constant, and the second hears both
            rest = torch.cat([rest[:, :1] + head, rest[:, 1:]], 1)
            head = torch.ones_like(head)
        return torch.cat([head, rest], 1), ladj


def verdict_on(first: str, shift: float = 0.0) -> Verdict:
    """What the law says of it."""
    module = Scaled(first)
    if shift:
        with torch.no_grad():
            module.log_scale[0] = shift
    return checking.pair_verdict(loading.snapshot(module), LAW, Settings("quick"))


def test_a_healthy_map_of_many_entries_holds() -> None:
    """No coordinate is lost, which a random cotangent tells."""
    verdict = verdict_on("")
    assert verdict.status is Status.HOLDS
    assert verdict.reason == "on a random cotangent"


def test_a_coordinate_that_moves_nothing_is_found() -> None:
    """Its log-det is larger than that of any map of such columns."""
    assert verdict_on("clamped").status is Status.VIOLATED


@pytest.mark.parametrize("first", ["saturated", "dropped"])
def test_what_is_flat_by_rounding_is_not_accused(first: str) -> None:
    """Where the log-det tells that the map is flat, and where norms of columns do not tell, nothing is
    said against it.
    """
    assert verdict_on(first, 12.0).status in (Status.HOLDS, Status.INCONCLUSIVE)
