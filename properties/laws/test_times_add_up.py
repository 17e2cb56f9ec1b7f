"""A map over an interval of time is that over its parts, one after the other, where it integrates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import DEEP, first_of

SPECIMENS = "flowref_zoo.specimens.solvers"
ADD_UP, STATES = "composition/in-time", "composition/in-time[states]"


class Steps(nn.Module):
    """Euler's or Heun's steps along a field between two times, or along one that is squeezed into them."""

    event_shape = (2,)

    def __init__(self, count: int, squeezed: bool = False, heun: bool = False) -> None:
        super().__init__()
        self.n_steps, self.squeezed, self.heun = count, squeezed, heun
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))

    def rate(self, x: Any, t: Any) -> tuple[Any, Any]:
        """The velocity, and its divergence."""
        inner: Any = self.net[0]
        outer: Any = self.net[2]
        hidden = torch.tanh(inner(torch.cat([x, torch.zeros_like(x[:, :1]) + t], 1)))
        into = torch.einsum("ij,ji->j", outer.weight, inner.weight[:, :2])
        return outer(hidden), ((1 - hidden**2) * into).sum(1)

    def forward(self, x: Any, t0: Any, t1: Any) -> tuple[Any, Any]:
        """From one time to the other."""
        h, ladj = (t1 - t0) / self.n_steps, torch.zeros_like(x[:, 0])
        for index in range(self.n_steps):
            share = index / self.n_steps
            t = share if self.squeezed else t0 + index * h
            v, d = self.rate(x, t)
            if self.heun:
                w, e = self.rate(x + h * v, t + (1 / self.n_steps if self.squeezed else h))
                v, d = (v + w) / 2, (d + e) / 2
            x, ladj = x + h * v, ladj + h * d
        return x, ladj


class Saturating(nn.Module):
    """A coupling that grows with the time that passed, and no longer after a while: no flow of time."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Any, t0: Any, t1: Any) -> tuple[Any, Any]:
        """From one time to the other."""
        moved = x[:, 1:] + self.net(x[:, :1]) * torch.tanh(torch.as_tensor(2.0 * (t1 - t0)))
        return torch.cat([x[:, :1], moved], 1), torch.zeros_like(x[:, 0])


def steps(count: int = 4, squeezed: bool = False, heun: bool = False) -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Steps(count, squeezed, heun)


def saturating() -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Saturating()


def status(target: str, law: str, seed: int = 0) -> Status:
    """Of a target of this module or of the specimens."""
    return check(target, law, Settings("quick", seed=seed)).status


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("law", [ADD_UP, STATES])
@pytest.mark.parametrize("name", ["asked", "growth"])
def test_what_follows_a_field_is_not_accused(name: str, law: str, seed: int) -> None:
    """Parts of its time add up, and its states are theirs."""
    judged = law == ADD_UP or name == "growth"
    wanted = Status.HOLDS if judged else Status.NOT_APPLICABLE
    assert status(f"{SPECIMENS}:{name}", law, seed) is wanted


@pytest.mark.parametrize("heun", [False, True], ids=["euler", "heun"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 24])
def test_few_steps_are_no_bug(count: int, heun: bool) -> None:
    """However inexact they are."""
    assert status(f"{__name__}:steps?count={count}&heun={heun}", ADD_UP) is not Status.VIOLATED


def test_what_is_no_flow_of_time_is_not_accused() -> None:
    """In closed form anything may be between two times."""
    assert status(f"{__name__}:saturating", ADD_UP) is Status.NOT_APPLICABLE


@DEEP
def test_a_field_that_is_squeezed_into_each_part_is_accused() -> None:
    """It starts at zero whenever it is asked to start."""
    assert status(f"{__name__}:steps?count=24&heun=True&squeezed=True", ADD_UP) is Status.VIOLATED


@DEEP
@pytest.mark.parametrize(
    ("target", "law"),
    [
        ("asked?defect=starts-at-zero", ADD_UP),
        ("growth?defect=starts-at-zero", ADD_UP),
        ("growth?defect=one-state-for-all", STATES),
        ("growth?defect=begins-after-the-first", STATES),
    ],
)
def test_bugs_are_accused(target: str, law: str) -> None:
    """Of the start, and of states that are written over."""
    assert status(f"{SPECIMENS}:{target}", law) is Status.VIOLATED
