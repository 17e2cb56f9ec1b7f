"""A log-density that adds up its batch is asked of point by point, and judged as one of points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check, loading
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target
from rows import crossed

MASS, SHAPE = "density/mass[importance]", "shape/one-number-per-point[log-prob]"


class Normal(nn.Module):
    """Three numbers, the second and third around functions of those before. ``bug``: what is wrong."""

    event_shape = (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.w = bug, nn.Parameter(torch.tensor([0.5, -0.3]))

    def rows(self, x: Any) -> Any:
        """The log-density of each point."""
        mean = torch.stack([torch.zeros_like(x[:, 0]), self.w[0] * x[:, 0], torch.tanh(x[:, 1])], 1)
        z = x - mean
        if self.bug == "centered":
            z = z - z.mean(0)
        entries = 2 if self.bug == "constant" else 3
        return -0.5 * entries * math.log(2 * math.pi) - 0.5 * z.square().sum(1)


class Summed(Normal):
    """Its name says so."""

    def log_p_sum(self, x: Any) -> Any:
        """Of the batch."""
        return self.rows(x).sum()


class Averaged(Normal):
    """The mean over a batch."""

    def log_likelihood(self, x: Any) -> Any:
        """Of the batch."""
        return self.rows(x).mean()


class Buggy(Normal):
    """What is called as a log-density of points is."""

    def log_prob(self, x: Any) -> Any:
        """Of the batch."""
        return self.rows(x).sum()


class Beside(Normal):
    """It comes beside the latents."""

    def forward(self, x: Any) -> Any:
        """The log-density of the batch, that of its points, and latents."""
        return self.rows(x).sum(), torch.zeros_like(x[:, 0]), x + 0.0


class Mixed(Normal):
    """The square of a sum is no sum."""

    def log_p_sum(self, x: Any) -> Any:
        """Of the batch."""
        return self.rows(x).sum().square()


OPTIONS = {
    "Summed": "log_prob=log_p_sum",
    "Averaged": "log_prob=log_likelihood",
    "Beside": "returns=log_prob,ladj,z",
    "Mixed": "log_prob=log_p_sum",
    "Buggy": "",
}


def spec(name: str, bug: str = "") -> str:
    """The target of a class of this file."""
    asked = "&".join(filter(None, [f"bug={bug}", OPTIONS[name]]))
    return f"{Path(__file__)}:{name}?{asked}"


def status(target: str, law: str) -> Status:
    """Of one law."""
    return check(target, law, Settings("quick")).status


@pytest.mark.parametrize("name", ["Summed", "Averaged", "Beside", "Buggy"])
def test_each_point_has_its_log_density(name: str) -> None:
    """Whatever stands beside it, and whether it is a sum or a mean."""
    flow: Any = loading.load(parse_target(spec(name)))
    x = np.random.default_rng(0).standard_normal((5, 3))
    wanted = Normal().double().rows(torch.from_numpy(x)).detach().numpy()
    assert flow.log_prob(x, None) == pytest.approx(wanted)
    assert any("over the batch" in said for said in recipe_of(parse_target(spec(name))).recognized.conventions)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "law"),
    crossed(
        ["Summed", "Averaged"],
        [MASS, SHAPE, "gradient/input[log-prob]", "gradient/parameters[value]"],
    ),
)
def test_what_is_right_is_judged_and_holds(name: str, law: str) -> None:
    """Also its shape: nobody took it for one of points."""
    assert status(spec(name), law) is Status.HOLDS


@pytest.mark.parametrize("name", ["Summed", "Averaged", "Buggy", "Beside"])
def test_a_constant_that_is_missing_is_seen(name: str) -> None:
    """By the mass of what each point has."""
    assert status(spec(name, "constant"), MASS) is Status.VIOLATED


def test_a_sum_in_the_place_of_points_is_accused() -> None:
    """Of its shape alone: all else is judged of its points."""
    assert status(spec("Buggy"), SHAPE) is Status.VIOLATED
    assert status(spec("Buggy"), MASS) is Status.HOLDS


@pytest.mark.parametrize(("name", "bug"), [("Mixed", ""), ("Summed", "centered")])
def test_what_points_do_not_add_up_to_is_no_sum(name: str, bug: str) -> None:
    """It stays as it is, and is undecided where points are asked for."""
    target = spec(name, bug)
    assert not any("over the batch" in said for said in recipe_of(parse_target(target)).recognized.conventions)  # fmt: skip
    assert status(target, "gradient/input[log-prob]") is Status.INCONCLUSIVE
    assert status(target, SHAPE) is Status.VIOLATED
