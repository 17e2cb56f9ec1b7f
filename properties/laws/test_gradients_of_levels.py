"""Gradients of maps of levels of pixels, which are large numbers between two ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Levels(nn.Module):
    """The logit of six levels, and a coupling; ``slip``: what is detached. ``straight``: a clamp passes
    gradients on where it clips.
    """

    event_shape, domain = (6,), (0.0, 256.0)

    def __init__(self, slip: str = "", straight: bool = False) -> None:
        super().__init__()
        self.slip, self.straight = slip, straight
        self.log_scale = nn.Parameter(torch.full((6,), 0.2))

    def forward(self, x: Any) -> Any:
        """Levels to latents."""
        share = 0.05 + 0.9 * x / 256
        if self.straight:
            share = share + (share.clamp(0.3, 0.7) - share).detach()
        y = torch.log(share) - torch.log1p(-share)
        each = softplus(y) + softplus(-y) + math.log(0.9 / 256)
        by = 0.3 * torch.tanh(y[:, :1])
        each = each.detach() if self.slip == "log-det" else each
        by = by.detach() if self.slip == "value" else by
        z = torch.cat([y[:, :1], y[:, 1:] * torch.exp(by)], 1) * self.log_scale.exp()
        return z, each.sum(1) + 5 * by[:, 0] + self.log_scale.sum()

    def log_prob(self, x: Any) -> Any:
        """With a normal base."""
        z, ladj = self(x)
        return ladj - 0.5 * (z**2).sum(1) - 3 * math.log(2 * math.pi)


@pytest.mark.parametrize(
    ("law", "slip", "status"),
    [
        ("conduct/value-gradient", "", Status.HOLDS),
        ("conduct/log-det-gradient", "", Status.HOLDS),
        ("conduct/score", "", Status.HOLDS),
        ("conduct/value-gradient", "value", Status.VIOLATED),
        ("conduct/log-det-gradient", "log-det", Status.VIOLATED),
        ("conduct/score", "value", Status.VIOLATED),
    ],
)
def test_levels_are_no_numbers_that_are_too_large(law: str, slip: str, status: Status) -> None:
    """Between two ends that are declared gradients are judged, however large the numbers are."""
    verdict = check(Levels(slip), law, QUICK)
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize("law", ["conduct/value-gradient", "conduct/score"])
def test_a_clamp_that_passes_gradients_on_is_not_accused(law: str) -> None:
    """A device of training, there as elsewhere."""
    assert check(Levels(straight=True), law, QUICK).status is not Status.VIOLATED
