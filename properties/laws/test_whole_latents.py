"""Layers that forget all but whole numbers, and latents of which each coordinate has a set of its own."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from flowref import checking
from flowref.checking import Settings
from flowref.laws.contribution.places import seen
from flowref.laws.contribution.sets import Whole, drawn_on, normal_on, with_whole
from flowref.model import REAL, Status, Support
from rows import crossed

LAWS = (
    "density/mass[contribution]",
    "kernel/follows-contribution",
    "kernel/follows-contribution[near-pairs]",
    "kernel/follows-contribution[balance]",
)
FLOORS = """import math
import torch


class Floor(torch.nn.Module):
    event_shape = (2,)
    bijective, stochastic_forward, stochastic_inverse = False, False, True

    def __init__(self, ends="", off=0.0, upward=False):
        super().__init__()
        self.off, self.upward = off, upward
        self.power = torch.nn.Parameter(torch.tensor([1.3, 0.8]))
        if ends:
            low, _, high = ends.partition("_")
            self.codomain = (float(low), float(high))
            self.domain = (float(low), float(high))

    def forward(self, x):
        z = x.floor()
        part = (x - z).clamp(min=1e-12)
        v = self.power.log() + (self.power - 1) * part.log()
        return z, v.sum(-1) + self.off

    def inverse(self, z):
        part = torch.rand_like(z) ** (1 / self.power)
        return z + (1 - part if self.upward else part)


class Signed(torch.nn.Module):
    event_shape, latent_shape, codomain = (2,), (2,), "positive,real"
    bijective, stochastic_forward, stochastic_inverse = False, False, True

    def __init__(self, off=0.0):
        super().__init__()
        self.off = off
        self.scale = torch.nn.Parameter(torch.tensor([0.2, -0.3]))

    def forward(self, x):
        k = (x[:, 0] > 0).long()
        z = torch.stack([x[:, 0].abs() * self.scale[k].exp(), x[:, 1]], -1)
        return z, self.scale[k] - math.log(2) + self.off

    def inverse(self, z):
        k = torch.randint(2, (len(z),))
        x = z[:, 0] * (-self.scale[k]).exp()
        return torch.stack([torch.where(k > 0, x, -x), z[:, 1]], -1)
"""
HEALTHY = ("Floor", "Floor?codomain=real", "Floor?ends=0_4", "Signed")
SETS = {
    "all": Whole.between(-math.inf, math.inf),
    "from 0": Whole.between(0, math.inf),
    "up to 3": Whole.between(-math.inf, 3),
    "levels": Whole.between(0, 7),
    "mixed": Support.product([Whole.between(0, 2), REAL]),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with them."""
    path = tmp_path_factory.mktemp("whole") / "floors.py"
    path.write_text(FLOORS)
    return path


@pytest.mark.parametrize(("name", "law"), crossed(HEALTHY, LAWS))
def test_they_are_judged_and_not_accused(file: Path, name: str, law: str) -> None:
    """Whether a codomain is declared or calls tell it."""
    assert checking.pair_verdict(f"{file}:{name}", law, Settings("quick")).status is Status.HOLDS


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("Floor?off=0.1", "density/mass[contribution]"),
        ("Floor?ends=0_4&off=-0.1", "kernel/follows-contribution[balance]"),
        ("Floor?upward=True", "kernel/follows-contribution"),
        ("Floor?upward=True", "kernel/follows-contribution[near-pairs]"),
        ("Signed?off=0.1", "density/mass[contribution]"),
    ],
)
def test_an_error_is_seen(file: Path, name: str, law: str) -> None:
    """Of a tenth of a nat, and of what the inverse draws."""
    assert checking.pair_verdict(f"{file}:{name}", law, Settings("quick")).status is Status.VIOLATED


@pytest.mark.parametrize("name", SETS)
def test_chances_are_those_of_draws(name: str) -> None:
    """Chances of whole numbers add up to one, and are how often each is drawn."""
    z = drawn_on(SETS[name], (2,), np.random.default_rng(0), 40_000)
    first = z[:, 0]
    assert (first == np.round(first)).all()
    among = np.arange(first.min() - 2, first.max() + 3)
    entry = SETS[name].coordinates[0] if SETS[name].coordinates else SETS[name]
    chances = np.exp(normal_on(entry, (), among))
    assert abs(chances.sum() - 1) < 1e-3
    often = (first[:, None] == among).mean(0)
    assert np.abs(often - chances).max() < 5 * 0.5 / math.sqrt(len(z))


@pytest.mark.parametrize(
    ("declared", "low", "high"),
    [("(0,8)", -0.5, 7.5), ("real", -math.inf, math.inf), ("positive", -0.5, math.inf)],
)
def test_the_ends_are_those_that_are_declared(declared: str, low: float, high: float) -> None:
    """Of eight levels that are declared as (0, 8) the last is seven."""
    z = np.random.default_rng(0).integers(0, 8, (400, 2)).astype(np.float64)
    support = with_whole(Support.parse(declared), z)
    assert isinstance(support, Whole)
    assert support.ends == (low, high)


def test_one_column_may_be_counted_and_another_not() -> None:
    """Undeclared, each coordinate has its own set."""
    rng = np.random.default_rng(0)
    z = np.stack([rng.integers(0, 3, 4000).astype(np.float64), 4 * rng.standard_normal(4000)], 1)
    support = seen(z)
    assert support is not None
    assert [str(one) for one in support.coordinates] == ["the whole numbers", "real"]
