"""Objects that refuse eval mode before their first batch in train mode are judged after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAWS = ("effects/state[parameters]", "same/saved[reload]")


class Waiting(nn.Module):
    """Standardized by its first batch; whether it has seen one is a plain attribute, or a buffer."""

    event_shape = (3,)
    flag: Any

    def __init__(self, saved: bool, again: bool = False) -> None:
        super().__init__()
        self.saved, self.again = saved, again
        self.shift, self.log_gain = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("flag", torch.tensor(False)) if saved else setattr(self, "flag", False)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if not self.flag and not self.training:
            raise ValueError("in eval mode, but not initialized")
        if self.training and (self.again or not self.flag):
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_gain.copy_(-torch.log(x.std(0) + 1e-6))
            self.flag = torch.tensor(True) if self.saved else True
        z = (x + self.shift) * self.log_gain.exp()
        return z, self.log_gain.sum().expand(len(x))


def saved() -> nn.Module:
    """It saves its flag."""
    return Waiting(saved=True)


def unsaved() -> nn.Module:
    """It does not."""
    return Waiting(saved=False)


def again() -> nn.Module:
    """It starts anew with every batch."""
    return Waiting(saved=True, again=True)


def status(name: str, law: str) -> Status:
    """A verdict."""
    return check(f"{__file__}:{name}", law, Settings("quick")).status


@pytest.mark.parametrize("law", LAWS)
def test_a_flag_that_is_saved_is_not_accused(law: str) -> None:
    """The first batch initializes; a new object with the state_dict goes on."""
    assert status("saved", law) is Status.HOLDS


def test_a_flag_that_is_not_saved_is_told() -> None:
    """A new object with the state_dict is initialized again by the batch that it asks for."""
    assert status("unsaved", "effects/state[parameters]") is Status.HOLDS
    verdict = check(f"{__file__}:unsaved", "same/saved[reload]", Settings("quick"))
    assert verdict.status is Status.VIOLATED and "refuses eval mode" in verdict.reason


def test_what_every_batch_sets_anew_is_told() -> None:
    """Writes after the first batch are seen in what refuses eval mode before it."""
    assert status("again", "effects/state[parameters]") is Status.VIOLATED
