"""Layers that normalize by running averages: in which form they hold their weight is seen in eval mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")
LAWS = (
    "batch-norm/modes-agree[running-average]",
    "batch-norm/gradient[running-average]",
    "map/log-det[slopes]",
    "batch-norm/gradient[eval]",
)
WEIGHTS: dict[str, Any] = {
    "itself": torch.clone,
    "exp": torch.exp,
    "softplus": nn.functional.softplus,
}


class MovingBatchNorm(nn.Module):
    """The layer of FFJORD: it normalizes by averages that the batch has entered, as constants."""

    event_shape = (3,)
    running_mean: Any
    running_var: Any

    def __init__(self, form: str, bug: str = "") -> None:
        super().__init__()
        self.form, self.bug, self.decay, self.eps = form, bug, 0.1, 1e-4
        self.weight, self.bias = nn.Parameter(torch.full((3,), 0.3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))

    def log_slope(self, var: Any) -> Any:
        """The logarithm of the slope of each channel."""
        inside = var if self.bug == "eps" else var + self.eps
        return WEIGHTS[self.form](self.weight).log() - 0.5 * torch.log(inside)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        mean, var = self.running_mean, self.running_var
        if self.training:
            with torch.no_grad():
                mean += self.decay * (x.mean(0) - mean)
                var += self.decay * (x.var(0, unbiased=len(x) > 1) - var)
        mean, var = mean.clone(), var.clone()
        weight = WEIGHTS[self.form](self.weight)
        y = weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias
        return y, self.log_slope(var).sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        weight = WEIGHTS[self.form](self.weight)
        spread = torch.sqrt(self.running_var + self.eps)
        ladj = -self.log_slope(self.running_var).sum().expand(len(z))
        return (z - self.bias) / weight * spread + self.running_mean, ladj


@pytest.mark.parametrize("form", WEIGHTS)
@pytest.mark.parametrize("law", LAWS)
def test_every_form_is_understood(law: str, form: str) -> None:
    """A logarithm was taken for the weight itself, and laws accused."""
    assert check(MovingBatchNorm(form), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("form", WEIGHTS)
def test_a_bug_is_accused_in_every_form(form: str) -> None:
    """The log-det lacks eps."""
    slopes = "map/log-det[slopes]"
    assert check(MovingBatchNorm(form, "eps"), slopes, QUICK).status is Status.VIOLATED
