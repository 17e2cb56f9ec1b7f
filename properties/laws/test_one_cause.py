"""A random layer breaks one law of conduct, and not every law that makes two calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.checking import Settings
from flowref.model import Status

HELD = (
    "same/history[optimizer-step]",
    "same/manner[strides]",
    "same/history[same-tensor]",
    "same/manner[grad-modes]",
    "same/rows",
    "same/copied",
    "same/copied[independence]",
    "same/saved[reload]",
)


class Noisy(nn.Module):
    """A scaling to which noise is added in eval mode too, as by dropout that is never switched off."""

    event_shape = (3,)

    def __init__(self, coupled: bool = False) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(3))
        self.coupled = coupled

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise = 0.1 * torch.randn_like(x)
        mean = x.mean(0) if self.coupled else 0.0
        return x * self.log_scale.exp() + noise + mean, self.log_scale.sum().expand(len(x))


def status(obj: Any, law: str) -> Status:
    """What a law says of an object."""
    return checking.pair_verdict(obj, law, Settings("quick")).status


def test_a_random_layer_is_accused_of_being_random() -> None:
    """The law on randomness says so."""
    assert status(Noisy(), "same/history[repeat]") is Status.VIOLATED


@pytest.mark.parametrize("law", HELD)
def test_a_random_layer_is_accused_of_nothing_else(law: str) -> None:
    """Laws that compare two calls hold the random state."""
    assert status(Noisy(), law) is Status.HOLDS


def test_rows_of_a_random_layer_are_still_held_to_be_independent() -> None:
    """With other content beside it, at the same place and in the same random state, a row is the
    same; unless rows meet.
    """
    assert status(Noisy(coupled=True), "same/rows") is Status.VIOLATED
