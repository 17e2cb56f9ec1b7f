"""Densities of parts of a whole that say nothing of it: their samples do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class Parts(nn.Module):
    """A Dirichlet distribution of four parts, which draws with gradients alone."""

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        self.bug, self.log_concentration = bug, nn.Parameter(torch.tensor([0.5, 0.8, 1.0, 1.2]))

    def log_prob(self, y: Any) -> Any:
        """Refuses what lies elsewhere."""
        return self._whole().log_prob(y) + self.bug

    def rsample(self, sample_shape: Any = ()) -> Any:
        """By a shape."""
        return self._whole().rsample(sample_shape)

    def _whole(self) -> Any:
        return torch.distributions.Dirichlet(1 + self.log_concentration.exp(), validate_args=True)


def test_samples_tell_where_events_lie() -> None:
    """And of which shape they are."""
    recipe = recipe_of(parse_target(f"{__file__}:Parts"))
    assert (recipe.facts.event_shape, recipe.facts.domain.kind) == ((4,), "simplex")


@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("?bug=0.2", Status.VIOLATED)])
def test_they_are_held_to_the_density(bug: str, status: Status) -> None:
    """On the simplex."""
    target = parse_target(f"{__file__}:Parts{bug}")
    law = "sampling/follows-density[simplex]"
    assert checking.pair_verdict(target, law, checking.Settings("quick")).status is status
