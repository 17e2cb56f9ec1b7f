"""Samples of conditional densities: their contexts have nothing in common with what else is drawn."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.model import Status
from flowref.registry import parse_target

LAWS = (
    "sampling/follows-density",
    "sampling/follows-density[ratios]",
    "sampling/follows-density[balance]",
)


class Moved(nn.Module):
    """A normal distribution around its context, which has as many numbers as an event."""

    event_shape, context_shape = (2,), (2,)

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug
        self.scale = nn.Parameter(torch.ones(2))

    def log_prob(self, x: Any, context: Any) -> Any:
        """Under its context."""
        each = -0.5 * ((x - context) / self.scale) ** 2 - self.scale.abs().log()
        return (each - 0.5 * math.log(2 * math.pi)).sum(-1)

    def sample(self, n: int, context: Any) -> Any:
        """One for each context."""
        return self.bug * context + self.scale * torch.randn(n, 2, dtype=context.dtype)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("?bug=0.5", Status.VIOLATED)])
def test_samples_are_held_to_the_density_of_their_contexts(
    law: str, bug: str, status: Status
) -> None:
    """And to no other."""
    target = parse_target(f"{__file__}:Moved{bug}")
    assert checking.pair_verdict(target, law, checking.Settings("quick")).status is status
