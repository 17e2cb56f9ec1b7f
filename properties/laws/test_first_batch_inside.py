"""Layers within a flow that its first batch initializes: what they give does not grow as a power of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Norm(nn.Module):
    """A line for each feature, set by the first batch; it goes back by a keyword."""

    initialized: Any

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.log_scale, self.shift = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        self.register_buffer("initialized", torch.tensor(False))

    def forward(self, x: Any, back: bool = False) -> tuple[Any, Any]:
        """There, or back."""
        if self.training and not self.initialized and not back:
            with torch.no_grad():
                spread = x.std(0, unbiased=False) + 1e-6
                powers = {"multiplied": 1.0, "squared": -2.0, "left": 0.0}
                self.log_scale.copy_(powers.get(self.bug, -1.0) * spread.log())
                self.shift.copy_(-x.mean(0) * self.log_scale.exp())
                self.initialized.fill_(True)
        if back:
            return (x - self.shift) * (-self.log_scale).exp(), -self.log_scale.sum()
        return x * self.log_scale.exp() + self.shift, self.log_scale.sum()


class Conditional(nn.Module):
    """Such a layer, and a coupling that depends on a context."""

    event_shape, context_shape = (2,), (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.norm, self.net = Norm(bug), nn.Linear(4, 2)

    def coupled(self, x: Any, context: Any, sign: float) -> tuple[Any, Any]:
        """The second feature moved and scaled by a function of the first one."""
        first, second = x.chunk(2, -1)
        log_scale, shift = self.net(torch.cat([first, context], -1)).tanh().chunk(2, -1)
        wide = log_scale.exp()
        second = second * wide + shift if sign > 0 else (second - shift) / wide
        return torch.cat([first, second], -1), sign * log_scale.sum(-1)

    def forward(self, x: Any, context: Any) -> tuple[Any, Any]:
        """Data to latents."""
        x, one = self.norm(x)
        z, other = self.coupled(x, context, 1.0)
        return z, one + other

    def inverse(self, z: Any, context: Any) -> tuple[Any, Any]:
        """Latents to data."""
        z, other = self.coupled(z, context, -1.0)
        x, one = self.norm(z, back=True)
        return x, one + other


class Density(nn.Module):
    """The density of it."""

    event_shape, context_shape = (2,), (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.flow = Conditional(bug)

    def log_prob(self, x: Any, context: Any) -> Any:
        """The log-density."""
        z, ladj = self.flow(x, context)
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1) + ladj


KINDS = {"mode/first-batch": Conditional, "mode/first-batch[layers]": Density}


@pytest.mark.parametrize("bug", ["", "left"])
@pytest.mark.parametrize("law", KINDS)
def test_a_layer_may_normalize_its_first_batch_or_leave_its_size(law: str, bug: str) -> None:
    """With contexts, and beside layers that are no lines."""
    assert check(KINDS[law](bug), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("bug", ["multiplied", "squared"])
@pytest.mark.parametrize("law", KINDS)
def test_a_wrong_power_is_accused(law: str, bug: str) -> None:
    """Multiplied by its deviation, or divided by its square."""
    verdict = check(KINDS[law](bug), law, QUICK)
    assert verdict.status is Status.VIOLATED
