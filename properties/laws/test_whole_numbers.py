"""Integer discrete flows: what gradients pass straight through accuses nobody, and samples are held against
masses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check, loading, registry
from flowref.checking import Settings
from flowref.laws.density.consistency import draw_masses, log_masses
from flowref.model import Status

QUICK = Settings("quick")


class IntegerFlow(nn.Module):
    """Two additive couplings that are rounded, under a logistic distribution of whole numbers."""

    event_shape = (2,)

    def __init__(self, bug: str = "", steps: int = 1) -> None:
        super().__init__()
        self.bug, self.steps = bug, steps
        self.weight, self.mean = (
            nn.Parameter(torch.tensor([1.7, -0.9])),
            nn.Parameter(torch.zeros(2)),
        )

    def shift(self, values: Any, place: int) -> Any:
        """A whole number, through which gradients pass straight."""
        t = 2 * torch.sin(self.weight[place] * values) + 0.3
        if self.bug == "unrounded":
            return t
        return t + (torch.round(t * self.steps) / self.steps - t).detach()

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        first = x[:, 0] + self.shift(x[:, 1], 0)
        return torch.stack([first, x[:, 1] + self.shift(first, 1)], 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        second = z[:, 1] - self.shift(z[:, 0], 1)
        return torch.stack([z[:, 0] - self.shift(second, 0), second], 1)

    def log_prob(self, x: Any) -> Any:
        """The logarithm of a mass."""
        z, half = self.forward(x) - self.mean, 0.6 if self.bug == "wide" else 0.5
        return torch.log(torch.sigmoid(z + half) - torch.sigmoid(z - half)).sum(1)

    @torch.no_grad()
    def sample(self, count: int) -> Any:
        """Whole numbers."""
        u = torch.rand(count, 2, dtype=self.mean.dtype)
        z = self.mean + torch.logit(u.clamp(1e-9, 1 - 1e-9))
        return self.inverse(torch.floor(z) if self.bug == "floored" else torch.round(z))


THROUGH = (
    "gradient/input[value]",
    "gradient/input[log-prob]",
    "gradient/parameters[value]",
    "map/inverse-jacobian",
)


@pytest.mark.parametrize("law", THROUGH)
def test_laws_of_gradients_wait(law: str) -> None:
    """Gradients are those of the map without its rounding, on purpose."""
    verdict = check(IntegerFlow(), law, QUICK)
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.blocked


def test_samples_are_held_against_masses() -> None:
    """Of whole numbers all masses add up to one."""
    assert check(IntegerFlow(), "sampling/follows-density[ratios]", QUICK).status is Status.HOLDS


@pytest.mark.parametrize("bug", ["wide", "floored"])
def test_a_wrong_mass_is_accused(bug: str) -> None:
    """Cells that overlap, and samples that lie half a cell beside."""
    assert (
        check(IntegerFlow(bug), "sampling/follows-density[ratios]", QUICK).status is Status.VIOLATED
    )


@pytest.mark.parametrize("steps", [1, 255, 256])
@pytest.mark.parametrize(("bug", "whole"), [("", True), ("unrounded", False)])
def test_steps_are_seen(bug: str, whole: bool, steps: int) -> None:
    """A map that is not rounded, to whole numbers or to levels, is judged as ever."""
    target = registry.parse_target(f"{__file__}:IntegerFlow?event=2&bug={bug}&steps={steps}")
    assert bool(loading.load(target).promises.get("whole-numbers")) is whole


class Shift(nn.Module):
    """A map that moves all points by the same whole number, as it happens to be built."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor([1.0, -2.0]))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The shift."""
        return x + self.by, torch.zeros(len(x), dtype=x.dtype)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """The shift back."""
        return z - self.by, torch.zeros(len(z), dtype=z.dtype)


def test_a_shift_by_whole_numbers_is_smooth() -> None:
    """Its gradients are judged as those of any other."""
    target = registry.parse_target(f"{__file__}:Shift")
    assert not loading.load(target).promises.get("whole-numbers")


@pytest.mark.parametrize("spread", [0.2, 1.0, 7.3])
def test_masses_add_up_to_one(spread: float) -> None:
    """And are those of what is drawn."""
    middle, deviation = np.array([0.4, -3.0]), np.array([spread, 2 * spread])
    axis = np.arange(-60.0, 61.0)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    ends = (np.array([-40.0, -30.0]), np.array([40.0, 3.0]))
    masses = np.exp(log_masses(grid, middle, deviation, 1.7, ends))
    assert masses.sum() == pytest.approx(1)
    assert grid[masses > 0].max() <= 40
    assert grid[masses > 0, 1].max() <= 3
    drawn = draw_masses(np.random.default_rng(0), 4_000, middle, deviation, 1.7, ends)
    expected = (masses[:, None] * grid).sum(0)
    assert np.abs(drawn.mean(0) - expected).max() < 0.1 + 0.1 * spread
