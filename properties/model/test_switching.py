"""Whether a method called train is the switch of modes, by its signature."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking
from flowref.model import Status
from flowref.model.mode_switch import switches


class Flow(nn.Module):
    """x -> e^w x in eval mode, and with noise beside it in train mode."""

    event_shape = (3,)

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))
        self.drop = nn.Dropout(0.5)
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = x * self.log_gain.exp() + 0 * self.drop(x)
        return z + self.drop(torch.zeros_like(x)), self.bug * self.log_gain.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.log_gain).exp()


class Training(Flow):
    """A training under the name of the switch, which asks for data."""

    def train(self, data: Any, epochs: int = 10) -> Any:  # type: ignore[override]  # as students write it
        """Not a mode."""
        raise AssertionError("a training was started")


class Epochs(Flow):
    """One that would start without data."""

    def train(self, epochs: int = 10) -> Any:  # a bool is an int
        """Not a mode."""
        raise AssertionError("a training was started")


class Frozen(Flow):
    """The switch itself, overridden to keep a part in eval mode."""

    def train(self, mode: bool = True) -> Any:
        """All but the drop."""
        super().train(mode)
        self.drop.train(False)
        return self


class Bare(Flow):
    """The switch, without a default and by another name."""

    def train(self, is_training: bool) -> Any:  # type: ignore[override]  # as students write it
        """All of it."""
        return super().train(is_training)


@pytest.mark.parametrize(
    ("kind", "switch"),
    [(Flow, True), (Frozen, True), (Bare, True), (Training, False), (Epochs, False)],
)
def test_a_training_is_told_from_the_switch_by_its_signature(kind: Any, switch: bool) -> None:
    """A module that is owned counts like one that is alone; a flag of the name is no switch."""
    assert switches(kind()) is switch
    flagged = kind()
    vars(flagged)["train"] = True
    assert not switches(flagged)


@pytest.mark.parametrize("kind", [Training, Epochs])
@pytest.mark.parametrize(("bug", "status"), [(1.0, Status.HOLDS), (-1.0, Status.VIOLATED)])
def test_a_training_of_that_name_is_never_started(kind: Any, bug: float, status: Status) -> None:
    """All but the protocol of modes is judged, in either mode; that is violated, since eval() calls it."""
    settings = checking.Settings("quick")
    assert checking.pair_verdict(kind(bug), "map/log-det", settings).status is status
    assert checking.pair_verdict(kind(), "effects/state[eval]", settings).status is Status.HOLDS
    verdict = checking.pair_verdict(kind(), "mode/protocol", settings)
    assert verdict.status is Status.VIOLATED and "eval() calls it" in verdict.reason


def test_the_switch_itself_is_called() -> None:
    """A part that is kept in eval mode stays in it."""
    assert checking.pair_verdict(Frozen(), "mode/protocol").status is Status.HOLDS
