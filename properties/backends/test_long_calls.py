"""Calls of thousands of operations are told apart from those that do not settle under random rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading
from flowref.model import Condition, Undecidable, Unsupported
from flowref.registry.specs import parse_target


class Drift(nn.Module):
    """x' = tanh(x) / 2 up to t = 1 in many steps of Euler; its log-det has no graph."""

    event_shape = (1,)
    steps = 700

    def forward(self, x: Any) -> Any:
        """The state at the end, and the log-det of the steps."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(self.steps):
            moved = torch.tanh(x)
            ladj = ladj + torch.log1p((1 - moved[:, 0].square()) * (0.5 / self.steps))
            x = x + moved * (0.5 / self.steps)
        return x, ladj.detach()


class Endless(Drift):
    """The same, of which each call takes more than a hundred times as many as the one before."""

    steps = 1

    def forward(self, x: Any) -> Any:
        """Refused at first."""
        type(self).steps, steps = 700, type(self).steps
        self.steps = steps
        return super().forward(x)


def drift() -> nn.Module:
    """With a long way."""
    return Drift()


def endless() -> nn.Module:
    """With one that grows."""
    return Endless()


@pytest.mark.parametrize(("name", "error"), [("drift", Unsupported), ("endless", Undecidable)])
def test_a_call_that_raises_when_it_is_counted_may_be_long(name: str, error: type) -> None:
    """A log-det without a graph has no derivative, as under noise, where the operations of a call that
    raised are as many as those before it did.
    """
    Endless.steps = 1
    flow: Any = loading.load(parse_target(f"{__name__}:{name}"), Condition())
    Endless.steps = 1
    with flow.noise(1, 2.0**-43), pytest.raises(error):
        flow.vjp("forward", np.ones((2, 1)), None, None, np.ones(2))
