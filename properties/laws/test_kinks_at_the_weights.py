"""Where the weights as given lie on a kink, as a gate does at the end of its clamp, a gradient of either side
accuses nobody.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.laws.common.differences import derivative
from flowref.model import Status

QUICK = Settings("quick")
LAWS = ("gradient/parameters[value]", "gradient/parameters[log-det]")


class Gated(nn.Module):
    """A stretch by a gate that is clamped, and starts at the end of its clamp."""

    event_shape = (2,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.gate = bug, nn.Parameter(torch.ones(2))
        self.shift = nn.Parameter(torch.zeros(2))

    def factor(self) -> Any:
        """Between 1 and 2."""
        gate = self.gate.clamp(0.0, 1.0)
        return 1 + (2 * gate - gate.detach() if self.bug == "doubled" else gate)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        shift = self.shift.detach() if self.bug == "detached" else self.shift
        return x * self.factor() + shift, self.factor().log().sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return (z - self.shift) / self.factor(), -self.factor().log().sum().expand(len(z))


@pytest.mark.parametrize("law", LAWS)
def test_either_side_is_a_gradient(law: str) -> None:
    """Differences of both sides give half of what autograd records."""
    assert check(Gated(), law, QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize(("bug", "law"), [("doubled", LAWS[1]), ("detached", LAWS[0])])
def test_what_lies_beyond_both_sides_is_accused(bug: str, law: str) -> None:
    """No kink explains it."""
    assert check(Gated(bug), law, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize(
    ("claimed", "excused"), [(0.0, True), (3.0, True), (1.0, True), (3.5, False), (-0.5, False)]
)
def test_slopes_between_those_of_the_two_sides_are_excused(claimed: float, excused: bool) -> None:
    """Of max(0, 3 t)."""
    estimate, error = derivative(lambda t: max(0.0, 3 * t), claimed, 20.0)
    assert (abs(claimed - estimate) <= 20 * error) is excused


@pytest.mark.parametrize("claimed", [1.9, 2.1])
def test_smooth_numbers_have_one_slope(claimed: float) -> None:
    """Of 2 t + t^2."""
    estimate, error = derivative(lambda t: 2 * t + t * t, claimed, 20.0)
    assert abs(claimed - estimate) > 20 * error
