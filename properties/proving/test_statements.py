"""Statements of couplings, composites, squeezes, bases and densities are proved where they hold, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import registry
from flowref.proving import certified

PATTERN, FORM = "coupling/pattern[conditioner]", "coupling/closed-form"
PARTS, BACK = "composition/parts", "composition/algebra[inverse]"
SQUEEZE, VOLUME = "squeeze/permutes", "map/promised-jacobian[volume]"
BASE, MASS, ONE = "density/base-constant", "density/mass", "map/one-to-one"
ALL = (PATTERN, FORM, PARTS, BACK, SQUEEZE, VOLUME, BASE, MASS, ONE)
FLOWS = """
import math

import torch
from torch import nn

HALF = 0.5 * math.log(2 * math.pi)


class Coupling(nn.Module):
    event_shape = (4,)
    mask = (1, 1, 0, 0)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 4))

    def forward(self, x):
        kept, moved = x[:, :2], x[:, 2:]
        s, t = self.net(self.seen(x)).chunk(2, 1)
        return torch.cat((kept, self.move(moved, s, t)), 1), self.told(s, moved)

    def inverse(self, z):
        kept, moved = z[:, :2], z[:, 2:]
        s, t = self.net(kept).chunk(2, 1)
        return torch.cat((kept, (moved - t) * (-s).exp()), 1), -s.sum(1)

    def seen(self, x):
        return x[:, :2]

    def move(self, moved, s, t):
        return moved * s.exp() + t

    def told(self, s, moved):
        return s.sum(1)


class Sees(Coupling):
    def seen(self, x):
        return x[:, :2] + 1e-3 * x[:, 2:]


class Bent(Coupling):
    def move(self, moved, s, t):
        return moved * s.exp() + moved**3 + t

    def told(self, s, moved):
        return (s.exp() + 3 * moved**2).log().sum(1)


class Half(Coupling):
    def told(self, s, moved):
        return 0.5 * s.sum(1)


class Image(nn.Module):
    event_shape = (3, 8, 8)
    leak = 0.0

    def __init__(self):
        super().__init__()
        rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
        self.register_buffer("mask", ((rows + columns) % 2).double())
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1))

    def forward(self, x):
        s, t = (self.net(x * self.mask + self.leak * x) * (1 - self.mask)).chunk(2, 1)
        return x * s.exp() + t, self.total(s)

    def total(self, s):
        return s.sum((1, 2, 3))


class OneTermShort(Image):
    def total(self, s):
        return super().total(s) - s[:, 0, 0, 0]


class LeakyImage(Image):
    leak = 1e-3


class Scaled(nn.Module):
    event_shape = (150,)

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-1, 1, 150))

    def forward(self, x):
        z = x * self.s.exp()
        return z + z**3, (self.s + (1 + 3 * z**2).log()).sum(1)


class Mixed(Scaled):
    def forward(self, x):
        z, told = super().forward(x)
        return z + 1e-6 * x.roll(1, 1), told


class Normal(nn.Module):
    constant = HALF

    def __init__(self):
        super().__init__()
        self.level, self.width = nn.Parameter(torch.tensor(0.0)), nn.Parameter(torch.tensor(0.0))

    def log_prob(self, z):
        return -(0.5 * z**2 + self.constant).sum(1)


class ShortNormal(Normal):
    constant = HALF - 1e-6


class FreeNormal(Normal):
    def log_prob(self, z):
        return super().log_prob(z) + self.level


class WideNormal(Normal):
    def log_prob(self, z):
        return super().log_prob(z * self.width.exp())


class Density(Coupling):
    base_class = Normal

    def __init__(self):
        super().__init__()
        self.base = self.base_class()

    def log_prob(self, x):
        z, told = self(x)
        return self.base.log_prob(z) + told


class Short(Density):
    base_class = ShortNormal


class Free(Density):
    base_class = FreeNormal


class Wide(Density):
    base_class = WideNormal
"""
# A target, and what is proved of it for all inputs and weights.
PROVED = [
    ("Coupling?kept=0,1&kind=affine-coupling", {PATTERN, FORM, ONE}),
    ("Sees?kept=0,1&kind=affine-coupling", set()),
    ("Bent?kept=0,1&kind=affine-coupling", {PATTERN}),
    ("Half?kept=0,1&kind=affine-coupling", {PATTERN, ONE}),
    ("Density", {BASE, MASS, ONE}),
    ("Short", {ONE}),
    ("Free", {ONE}),
    ("Wide", {ONE}),
]
OF_LIBRARIES = [
    ("reference:Squeeze", {SQUEEZE, VOLUME, ONE}),
    ("nflows:IdentityTransform", {VOLUME, ONE}),
    ("nflows:CompositeTransform", {PARTS, BACK, ONE}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of flows."""
    path = tmp_path_factory.mktemp("statements")
    (path / "flows.py").write_text(FLOWS)
    return path


def proved(spec: str) -> set[str]:
    """What is proved of a target for all inputs and weights."""
    laws = map(registry.find_law, ALL)
    claims = certified(registry.parse_target(spec), laws, quick=True)
    return {one.statement for one in claims if one.proof.whole}


@pytest.mark.parametrize(("name", "found"), PROVED)
def test_what_holds_is_proved(name: str, found: set[str], folder: Path) -> None:
    """And nothing else: neither where an entry sees more than it may, nor where a constant is short of its value."""
    assert proved(f"{folder / 'flows.py'}:{name}") == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Image", True),
        ("OneTermShort", False),
        ("LeakyImage", False),
        ("Scaled", True),
        ("Mixed", False),
    ],
)
def test_log_dets_of_many_entries_are_proved(name: str, found: bool, folder: Path) -> None:
    """Of couplings, and of maps of each entry by itself, whose Jacobian has few entries."""
    target = registry.parse_target(f"{folder / 'flows.py'}:{name}")
    (claim,) = certified(target, [registry.find_law("map/log-det")], quick=True)
    assert claim.proof.proved == found, claim.text()
    assert found or claim.proof.reason.startswith("not decided: for events of more than 128")


@pytest.mark.parametrize(("spec", "found"), OF_LIBRARIES)
def test_constructions_of_libraries_are_proved(spec: str, found: set[str]) -> None:
    """Squeezes and composites."""
    assert proved(spec) == found


def test_a_consequence_names_what_it_follows_from(folder: Path) -> None:
    """It has no graph of its own, and no file."""
    target = registry.parse_target(f"{folder / 'flows.py'}:Density")
    (claim,) = certified(target, [registry.find_law(MASS)], quick=True)
    assert "Follows   from map/log-det, map/inverse" in claim.text()
    assert not claim.has_content
