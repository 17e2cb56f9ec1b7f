"""Densities whose base refuses what is no number, as torch's distributions do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal

from flowref import check
from flowref.checking import Settings
from flowref.laws.density.draws import log_prob_at_points
from flowref.loading import load
from flowref.model import Status, Undecidable
from flowref.model.abilities import Density, offers
from flowref.registry import parse_target

QUICK = Settings("quick")


class Checked(nn.Module):
    """Latents that are no numbers beyond ``most``, of a base that checks its arguments; ``counted``: in
    how many of four dimensions it has its constant; ``forgotten``: how many of them it leaves out.
    """

    event_shape = (4,)

    def __init__(self, most: float = 3.0, counted: int = 4, forgotten: int = 0) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((4,), 0.2))
        self.most, self.counted, self.forgotten = most, counted, forgotten

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.where(x.abs() < self.most, x * self.log_scale.exp(), math.nan)
        return z, self.log_scale.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.log_scale).exp()

    def log_prob(self, x: Any) -> Any:
        """Refuses a batch for one point that is no number."""
        z, ladj = self(x)
        each = Normal(torch.zeros_like(z), 1.0, validate_args=True).log_prob(z)
        missing = 0.5 * (4 - self.counted) * math.log(2 * math.pi)
        return each[:, self.forgotten :].sum(1) + ladj + missing


@pytest.mark.parametrize(
    ("law", "density", "status"),
    [
        ("density/base-constant[latents]", Checked(), Status.HOLDS),
        ("density/base-constant[latents]", Checked(counted=1), Status.VIOLATED),
        ("density/mass[tails]", Checked(), Status.HOLDS),
        ("density/mass[tails]", Checked(most=1e4), Status.HOLDS),
        ("density/mass[tails]", Checked(most=1e4, forgotten=2), Status.VIOLATED),
    ],
    ids=["base", "base-once", "tails", "far-tails", "forgotten"],
)
def test_points_that_are_refused_leave_the_others(law: str, density: Any, status: Status) -> None:
    """What refuses a batch for one point is judged by the others."""
    verdict = check(density, law, QUICK)
    assert verdict.status is status, verdict.reason


def test_what_refuses_every_point_is_not_judged() -> None:
    """Where no point is answered that is said, and nothing holds."""
    subject = load(parse_target("reference:Flow[RealNVP]"))

    def refuse(*_: Any) -> Any:
        raise ValueError("outside")

    refusing = subject.with_call("log_prob", refuse)
    assert offers(refusing, Density)
    with pytest.raises(Undecidable, match="outside"):
        log_prob_at_points(refusing, np.zeros((9, 16)), None, lost=1.0)
