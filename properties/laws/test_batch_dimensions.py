"""Several batch dimensions are one, or refused; what comes back otherwise is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import Settings, pair_verdict
from flowref.model import Status
from flowref.registry import find_law, parse_target


class Scale(nn.Module):
    """Each entry times a number. ``way``: how it takes several batch dimensions."""

    event_shape = (3,)

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor([0.1, 0.2, 0.4]))
        self.way = way

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        deep = x.ndim > 2
        if self.way == "refused" and deep:
            raise RuntimeError(f"expected 2D input, but got {list(x.shape)}")
        lead = x.shape[:1] if self.way == "forgotten" else x.shape[:-1]
        return x * self.logarithm.exp(), self.logarithm.sum().expand(lead)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.logarithm).exp(), -self.logarithm.sum().expand(z.shape[:-1])


@pytest.mark.parametrize(
    ("way", "status", "reason"),
    [
        ("", Status.HOLDS, ""),
        ("refused", Status.NOT_APPLICABLE, "it rejects points in two batch dimensions"),
        ("forgotten", Status.VIOLATED, "the log-det came back in shape"),
    ],
)
def test_several_batch_dimensions_are_one(way: str, status: Status, reason: str) -> None:
    """A log-det of the first of them alone is told; a refusal is no error."""
    target = parse_target(f"{Path(__file__)}:Scale?way={way}&promises=batch-dims")
    verdict = pair_verdict(target, find_law("shape/any-batch[batch-axes]"), Settings("quick"))
    assert verdict.status is status
    assert reason in verdict.reason
