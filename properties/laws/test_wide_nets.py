"""Nets that are too wide to bear a large step of an optimizer are asked after a small one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.laws.conduct.state import NUDGE, SLIGHT, nudge
from flowref.loading import load
from flowref.model import Batch, Status
from flowref.model.abilities import Living, offers
from flowref.registry import parse_target


class Wide(nn.Module):
    """The second half scaled by a net of the first of so many units; ``bug``: that are kept from the
    first call in eval mode on.
    """

    event_shape = (6,)

    def __init__(self, width: int = 4_000, bug: bool = False) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(3, width), nn.Linear(width, 3)
        nn.init.normal_(self.out.weight, std=1e-4)
        self.bug = bool(bug)
        self.kept: Any = None

    def scale(self, a: Any) -> Any:
        """The logarithm of a scale."""
        weight = self.out.weight
        if self.bug and not self.training:
            self.kept = weight.detach().clone() if self.kept is None else self.kept
            weight = self.kept
        units = self.out.in_features / 60 * nn.functional.softplus(self.into(a))
        return nn.functional.linear(units, weight, self.out.bias)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s = self.scale(x[:, :3])
        return torch.cat([x[:, :3], x[:, 3:] * s.exp()], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return torch.cat([z[:, :3], z[:, 3:] * (-self.scale(z[:, :3])).exp()], 1)


def spec(bug: str = "", width: int = 4_000) -> str:
    """The target of such a net."""
    return f"{Path(__file__)}:Wide?bug={bug}&width={width}"


@pytest.mark.parametrize("law", ["same/history[optimizer-step]", "same/history[same-tensor]"])
@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("1", Status.VIOLATED)])
def test_wide_nets_are_judged(law: str, bug: str, status: Status) -> None:
    """What is kept from before a step is seen, and what keeps nothing holds."""
    verdict = check(spec(bug), law, Settings("quick"))
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize(("width", "step"), [(8, NUDGE), (4_000, SLIGHT)])
def test_a_step_is_as_large_as_is_borne(width: int, step: float) -> None:
    """By what comes back, and not by the number of entries."""
    subject = load(parse_target(spec(width=width)))
    assert offers(subject, Living)
    assert nudge(subject, Batch(np.zeros((4, 6)), None, 3)).scale == step
