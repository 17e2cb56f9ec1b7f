"""Flows that are asked for a time interval go back by the same interval turned around."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Growth(nn.Module):
    """The flow of dx/dt = w (1 + t) x; or one that forgets at which time it starts."""

    event_shape = (3,)

    def __init__(self, forgets: bool = False) -> None:
        super().__init__()
        self.w, self.forgets = nn.Parameter(torch.tensor([0.3, -0.2, 0.5])), forgets

    def between(self, x: Any, start: Any, end: Any) -> Any:
        """The point at the end, and the log-det."""
        if self.forgets:
            start, end = 0.0, end - start
        grown = self.w * ((end - start) + (end**2 - start**2) / 2)
        return x * grown.exp(), grown.sum().expand(len(x))


class Asked(Growth):
    """It cannot do without both ends."""

    def forward(self, x: Any, t0: Any, t1: Any) -> Any:
        """From one time to the other."""
        return self.between(x, t0, t1)


class Usual(Growth):
    """It has usual ends."""

    def forward(self, x: Any, t_start: float = 0.0, t_end: float = 2.0) -> Any:
        """From one time to the other."""
        return self.between(x, t_start, t_end)


class Spanned(Growth):
    """It asks for both ends at once."""

    def forward(self, x: Any, integration_times: Any) -> Any:
        """From the first time to the last."""
        return self.between(x, integration_times[0], integration_times[-1])


class SpannedUsually(Growth):
    """It takes both ends at once, and has usual ones."""

    def forward(self, x: Any, integration_times: Any = (0.0, 1.0)) -> Any:
        """States at the times, from the first to the last, with log-dets."""
        found = [self.between(x, integration_times[0], time) for time in integration_times]
        return torch.stack([y for y, _ in found]), torch.stack([ladj for _, ladj in found])


class Ended(Growth):
    """Its way back asks for ends as well: in which order, nobody says."""

    def forward(self, x: Any, t0: Any, t1: Any) -> Any:
        """From one time to the other."""
        return self.between(x, t0, t1)

    def inverse(self, z: Any, t0: Any, t1: Any) -> Any:
        """From one time back to the other, as this author means it."""
        return self.between(z, t1, t0)


class Layers(nn.Module):
    """Numbers of the first and the last layer are no times."""

    event_shape = (3,)

    def forward(self, x: Any, start: int = 0, end: int = 2) -> Any:
        """Through some layers."""
        return x * 2 ** (end - start) + start, torch.full_like(x[:, 0], 2 * 3 * 0.6931471805599453)


KINDS = [Asked, Usual, Spanned, SpannedUsually, Ended]
LAWS = ("map/log-det", "map/inverse")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_time_runs_back(kind: type[Growth], law: str) -> None:
    """From the last time to the first."""
    assert check(kind(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_that_forgets_when_it_starts_is_accused(kind: type[Growth]) -> None:
    """A field that changes with time does not lead back from there."""
    assert check(kind(forgets=True), LAWS[1], QUICK).status is Status.VIOLATED


def test_numbers_of_layers_are_no_times() -> None:
    """What is counted is not turned around."""
    assert check(Layers(), LAWS[1], QUICK).status is Status.NOT_APPLICABLE
