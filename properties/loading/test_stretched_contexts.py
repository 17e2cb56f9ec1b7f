"""Contexts of which calls take several shapes: one number that is stretched is no shape of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref.loading import recipe_of
from flowref.registry import parse_target


class Standardized(nn.Module):
    """Two entries and three numbers of a context, each divided by a spread of its own: one number is, too."""

    spread: Any
    around: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("spread", torch.tensor([1.5, 0.5]))
        self.register_buffer("around", torch.tensor([2.0, 1.0, 0.7]))
        self.shift = nn.Linear(3, 1)

    def forward(self, x: Any, context: Any) -> tuple[Any, Any]:
        """Data to latents."""
        shift = self.shift(context / self.around)
        z = x / self.spread + shift
        return z, -self.spread.log().sum().expand(len(x))


class Sliced(nn.Module):
    """Whatever number of entries, of which the first decides about the others."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(1 + 3, 1)

    def forward(self, x: Any, context: Any) -> tuple[Any, Any]:
        """Data to latents."""
        shift = self.net(torch.cat([x[:, :1], context], 1))
        return torch.cat([x[:, :1], x[:, 1:] + shift], 1), x.new_zeros(len(x))


def test_one_number_that_is_stretched_is_no_shape() -> None:
    """Neither of the event nor of the context."""
    facts = recipe_of(parse_target(f"{__file__}:Standardized")).facts
    assert (facts.event_shape, facts.context_shape) == ((2,), (3,))


def test_of_several_events_the_first_is_a_guess() -> None:
    """What holds at another one that fits as well is not accused."""
    facts = recipe_of(parse_target(f"{__file__}:Sliced")).facts
    assert (facts.event_shape, facts.context_shape) == ((2,), (3,))
    assert facts.guessed == ((3,), (4,))
