"""Levels that are split off under a normal distribution whose scale the other levels tell."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target

QUICK = Settings("quick")
HALF_LOG = 0.5 * math.log(2 * math.pi)


class Split(nn.Module):
    """Two of four entries are split off, with a mean and a scale that a net of the others tells, and the
    log-density of all latents comes back beside them. ``bug``: what is wrong with it.
    """

    event_shape = (4,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.log_scale, self.prior = nn.Parameter(torch.linspace(-0.4, 0.5, 4)), nn.Linear(2, 4)
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """Latents, their log-det and their log-density."""
        z = x * self.log_scale.exp()
        mean, s = self.prior(z[:, :2]).chunk(2, 1)
        sign = 1 if self.bug == "sign" else -1
        part = sign * s - HALF_LOG - 0.5 * ((z[:, 2:] - mean) * torch.exp(-s)) ** 2
        if self.bug == "pixels":
            part = (
                -HALF_LOG
                - s.mean(1, keepdim=True) / 2
                - 0.5 * ((z[:, 2:] - mean) * torch.exp(-s)) ** 2
            )
        if self.bug == "forgotten":
            part = torch.zeros_like(part)
        log_det = self.log_scale.sum().expand(len(x))
        log_p_sum = part.sum(1) + (-HALF_LOG - 0.5 * z[:, :2] ** 2).sum(1)
        return z, log_det, log_p_sum

    def inverse(self, z: Any) -> Any:
        """Data of latents."""
        return z * (-self.log_scale).exp()

    def sample(self, n: int) -> Any:
        """From the last level on."""
        kept = torch.randn(n, 2, dtype=self.log_scale.dtype)
        mean, s = self.prior(kept).chunk(2, 1)
        return self.inverse(torch.cat([kept, mean + s.exp() * torch.randn_like(kept)], 1))


def spec(bug: str = "", returns: str = "z,ladj,log_prior") -> str:
    """The target of such a model."""
    return f"{Path(__file__)}:Split?bug={bug}" + f"&returns={returns}" * bool(returns)


LAWS = ("density/mass[tails]", "sampling/follows-density[ratios]", "sampling/follows-density")


@pytest.mark.parametrize("law", LAWS)
def test_scales_that_are_vast_far_out_are_not_accused(law: str) -> None:
    """Where nothing falls since a scale is vast, nothing was forgotten."""
    assert check(spec(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize(
    ("bug", "law"),
    [("sign", LAWS[2]), ("pixels", LAWS[2]), ("forgotten", LAWS[0]), ("forgotten", LAWS[2])],
)
def test_a_bug_of_a_part_that_is_named_is_seen(bug: str, law: str) -> None:
    """What ?returns= says that it is makes a log-density with the log-det."""
    assert check(spec(bug), law, QUICK).status is Status.VIOLATED


def test_a_part_that_is_not_judged_is_said() -> None:
    """And how to name it, since it may be the log-density of the data as well."""
    hints = recipe_of(parse_target(spec(returns=""))).recognized.hints
    assert any("log_p_sum" in hint and "?returns=z,ladj,log_prior" in hint for hint in hints)
    named = recipe_of(parse_target(spec())).recognized.hints
    assert not any("log_p_sum" in hint for hint in named)
