"""Gradients of maps of levels of pixels, which are large numbers between two ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from flowref import check
from flowref.checking import Settings
from flowref.laws.conduct.autograd import log_det_gradient, value_gradient
from flowref.loading import load
from flowref.model import Batch, Law, Status
from flowref.registry import parse_target
from rows import DEEP

QUICK = Settings("quick")


class Levels(nn.Module):
    """The logit of six levels, and a coupling; ``bug``: what is detached. ``straight``: a clamp passes
    gradients on where it clips.
    """

    event_shape, domain = (6,), (0.0, 256.0)

    def __init__(self, bug: str = "", straight: bool = False) -> None:
        super().__init__()
        self.bug, self.straight = bug, straight
        self.log_scale = nn.Parameter(torch.full((6,), 0.2))

    def forward(self, x: Any) -> Any:
        """Levels to latents."""
        share = 0.05 + 0.9 * x / 256
        if self.straight:
            share = share + (share.clamp(0.3, 0.7) - share).detach()
        y = torch.log(share) - torch.log1p(-share)
        each = softplus(y) + softplus(-y) + math.log(0.9 / 256)
        by = 0.3 * torch.tanh(y[:, :1])
        each = each.detach() if self.bug == "log-det" else each
        by = by.detach() if self.bug == "value" else by
        z = torch.cat([y[:, :1], y[:, 1:] * torch.exp(by)], 1) * self.log_scale.exp()
        return z, each.sum(1) + 5 * by[:, 0] + self.log_scale.sum()

    def log_prob(self, x: Any) -> Any:
        """With a normal base."""
        z, ladj = self(x)
        return ladj - 0.5 * (z**2).sum(1) - 3 * math.log(2 * math.pi)


@pytest.mark.parametrize("bug", ["", "value", "log-det"])
@pytest.mark.parametrize(
    ("law", "seen"),
    [(value_gradient, {"value"}), (log_det_gradient, {"value", "log-det"})],
    ids=["value", "ladj"],
)
def test_levels_are_no_numbers_that_are_too_large(law: Law, seen: set[str], bug: str) -> None:
    """Between two ends that are declared gradients are judged, however large the numbers are."""
    subject = load(parse_target(f"{__file__}:Levels?bug={bug or 'no'}"))
    x = np.random.default_rng(0).uniform(1, 255, (8, 6))
    residual = law.measure(subject, Batch(x, None, 0))
    assert residual.decidable is not None and residual.decidable.any()
    wrong = residual.decidable & (np.abs(residual.value) > residual.allowed)
    assert wrong.any() == (bug in seen)


@DEEP
def test_a_wrong_gradient_of_levels_is_accused() -> None:
    """The whole way."""
    assert check(Levels("value"), "gradient/input[value]", QUICK).status is Status.VIOLATED


@pytest.mark.parametrize(
    "law", ["gradient/input[value]", "gradient/input[log-det]", "gradient/input[log-prob]"]
)
def test_right_gradients_of_levels_hold(law: str) -> None:
    """They are judged, and right."""
    assert check(Levels(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("law", ["gradient/input[value]", "gradient/input[log-prob]"])
def test_a_clamp_that_passes_gradients_on_is_not_accused(law: str) -> None:
    """A device of training, there as elsewhere."""
    assert check(Levels(straight=True), law, QUICK).status is not Status.VIOLATED
