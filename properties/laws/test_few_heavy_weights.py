"""Layers of which few draws hold most of the weight, that refuse few of them, or that draw none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flowref import checking
from flowref.checking import Settings
from flowref.laws.common.statistics import at_least
from flowref.model import Status
from rows import first_of

LAYERS = """import math
import torch
import torch.nn.functional as F


class Dequantize(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape, domain, codomain = (2,), (0, 4), (0, 4)

    def __init__(self, whole=True):
        super().__init__()
        self.whole = whole

    def forward(self, x):
        e = torch.randn_like(x)
        a = 0.3 * (x - 1.5) + 0.8 * e
        log_q = -0.5 * e**2 - 0.5 * math.log(2 * math.pi) - math.log(0.8)
        if self.whole:
            log_q = log_q - F.logsigmoid(a) - F.logsigmoid(-a)
        return x + torch.sigmoid(a), -log_q.sum(1)

    def inverse(self, z):
        return z.floor().clamp(0, 3)


class Pad(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape = (2,)

    def __init__(self, size=1.0):
        super().__init__()
        self.size = size

    def forward(self, x):
        e = torch.randn_like(x[:, :1])
        v = 0.5 * e**2 + 0.5 * math.log(2 * math.pi)
        return torch.cat([x, self.size * e], 1), self.size * v.sum(1)

    def inverse(self, z):
        return z[:, :2]


class Walk(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, True
    event_shape, codomain = (2,), "real"

    def __init__(self, each=True):
        super().__init__()
        self.each = each

    def energy(self, x):
        return 0.5 * x.square().sum(1)

    def forward(self, x):
        y = x + 0.05 * torch.randn_like(x)
        u = torch.rand(len(x) if self.each else 1, dtype=x.dtype)
        refused = u.log() >= self.energy(x) - self.energy(y)
        z = torch.where(refused[:, None], x, y)
        return z, self.energy(z) - self.energy(x)

    def inverse(self, z):
        return self.forward(z)


def dequantize(whole=True):
    return Dequantize(whole)


def pad(size=1.0):
    return Pad(size)


def walk(each=True):
    return Walk(each)
"""


def status(folder: Path, layer: str, law: str, seed: int = 0) -> Status:
    """Of one layer under one law."""
    file = folder / "heavy_weights.py"
    file.write_text(LAYERS)
    return checking.pair_verdict(
        f"{file}:{layer}", f"contribution/{law}", Settings("quick", seed=seed)
    ).status


@pytest.mark.parametrize("law", ["integral", "near-pairs"])
def test_what_is_too_much_though_it_is_cut_accuses(tmp_path: Path, law: str) -> None:
    """Without the slope of the sigmoid, weights have no mean at all, and are seen."""
    assert status(tmp_path, "dequantize?whole=False", law) is Status.VIOLATED


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("law", ["integral", "near-pairs"])
def test_what_is_right_and_heavy_is_not_accused(tmp_path: Path, law: str, seed: int) -> None:
    """With it, their mean is one, and their variance infinite."""
    assert status(tmp_path, "dequantize", law, seed) is not Status.VIOLATED


def test_numbers_that_are_always_the_same_have_no_density(tmp_path: Path) -> None:
    """Zeros beside the data are not what a layer adds that says that it draws."""
    assert status(tmp_path, "pad?size=0.0", "draws-as-told") is Status.VIOLATED
    assert status(tmp_path, "pad", "draws-as-told") is Status.HOLDS


def test_few_refusals_are_counted(tmp_path: Path) -> None:
    """One uniform number for all rows refuses few of them, all at once."""
    assert status(tmp_path, "walk?each=False", "noise-of-each-row") is Status.VIOLATED
    assert status(tmp_path, "walk", "noise-of-each-row") is Status.HOLDS


def test_weights_that_are_cut_have_no_larger_mean() -> None:
    """However heavy their tail is."""
    weights = np.random.default_rng(0).pareto(1.5, 50_000)  # of mean 2
    found = at_least(np.log(weights), 20.0)
    assert found is not None
    assert 1 < found[0] < 2
    assert at_least(np.array([0.0] * 9 + [50.0]), 20.0) is None
