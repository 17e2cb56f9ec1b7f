"""The mass of a density that a solver of few steps gives is off by the error of these, which is said; what
more steps leave of it is none of theirs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import Status, Verdict

LAW = "density/mass"


class Field(nn.Module):
    """A density of one entry along dx/dt = a sin(b x + c t), by midpoint steps of which the divergence is
    added up beside the state.
    """

    event_shape = (1,)
    a: Any
    b: Any
    c: Any

    def __init__(self, steps: int, constant: float = 0.0) -> None:
        super().__init__()
        self.n_steps, self.constant = steps, constant
        self.a = nn.Parameter(torch.tensor([1.5]))
        self.b = nn.Parameter(torch.tensor([1.2]))
        self.c = nn.Parameter(torch.tensor([0.7]))

    def count(self) -> int:
        """Of the steps."""
        return self.n_steps

    def rate(self, x: Any, t: float) -> tuple[Any, Any]:
        """The field and its divergence."""
        phase = self.b * x + self.c * t
        return self.a * phase.sin(), (self.a * self.b * phase.cos()).sum(-1)

    def log_prob(self, x: Any) -> Any:
        """To the base, and what volume does on the way."""
        gained = torch.zeros_like(x[:, 0])
        h = 1 / self.count()
        for step in range(self.count()):
            t = step * h
            half, _ = self.rate(x, t)
            velocity, divergence = self.rate(x + h / 2 * half, t + h / 2)
            x, gained = x + h * velocity, gained + h * divergence
        base = -0.5 * x.square().sum(-1) - 0.5 * math.log(2 * math.pi)
        return base + gained + self.constant


class Unnamed(Field):
    """The steps are a number of the class, under a name that tells nothing, and nothing is a parameter."""

    n = 12

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.constant = 0.0
        self.a, self.b, self.c = torch.tensor([1.5]), torch.tensor([1.2]), torch.tensor([0.7])

    def count(self) -> int:
        """Of the steps."""
        return self.n


def unnamed() -> nn.Module:
    """Of a dozen, which nobody calls steps."""
    return Unnamed()


def coarse() -> nn.Module:
    """Of few steps, whose mass is off by some thousandths."""
    return Field(8)


def fine() -> nn.Module:
    """Of many."""
    return Field(200)


def coarse_and_off() -> nn.Module:
    """A constant is left out, beside the error of few steps."""
    return Field(8, 0.05)


def fine_and_off() -> nn.Module:
    """The same of many."""
    return Field(200, 0.002)


def verdict(name: str) -> Verdict:
    """The verdict on the mass."""
    target = registry.parse_target(f"{__name__}:{name}")
    return checking.pair_verdict(target, LAW, Settings(profile="quick"))


@pytest.mark.parametrize("name", ["coarse", "unnamed"])
def test_few_steps_are_told_as_such(name: str) -> None:
    """The mass comes nearer to one with them, so that nobody is accused, and nothing passed."""
    found = verdict(name)
    assert found.status is Status.INCONCLUSIVE, found
    assert "with the steps of its solver" in found.reason


def test_many_steps_hold() -> None:
    """To the accuracy that a solver is held to."""
    assert verdict("fine").status is Status.HOLDS


@pytest.mark.parametrize("name", ["coarse_and_off", "fine_and_off"])
def test_what_more_steps_leave_accuses(name: str) -> None:
    """However many there are."""
    assert verdict(name).status is Status.VIOLATED, verdict(name)
