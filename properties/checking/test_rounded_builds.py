"""What is computed while an object is built and kept is off by the rounding of building: that accuses
nobody, and what is wrong beside it is accused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from flowref import checking
from flowref.loading import load
from flowref.model import Condition, Status
from flowref.registry import parse_target

CODE = """
from types import SimpleNamespace

import torch
from torch import nn

D = 64


def pair():
    a = torch.randn(D, D)
    return torch.matrix_exp(a), torch.matrix_exp(-a)


class Exponential(nn.Module):
    event_shape = (D,)

    def __init__(self, bug=0.0, learned=False):
        super().__init__()
        w, v = pair()
        v[0, 0] += bug
        self.register_buffer("w", w)
        self.register_buffer("v", v)
        self.shift = nn.Parameter(torch.zeros(D)) if learned else 0.0

    def forward(self, x):
        return (x + self.shift) @ self.w.to(x).T, torch.linalg.slogdet(self.w.to(x))[1].expand(len(x))

    def inverse(self, z):
        return z @ self.v.to(z).T - self.shift, torch.linalg.slogdet(self.v.to(z))[1].expand(len(z))


class Rotation(nn.Module):
    event_shape = (D,)

    def __init__(self):
        super().__init__()
        a = torch.randn(D, D)
        self.register_buffer("r", torch.matrix_exp(a - a.T))

    def forward(self, x):
        return x @ self.r.T, x.new_zeros(len(x))

    def inverse(self, z):
        return z @ self.r, z.new_zeros(len(z))


def learned():
    return Exponential(learned=True)


def buggy():
    return Exponential(bug=1e-9)


def buggy_learned():
    return Exponential(bug=1e-9, learned=True)


def closed():
    w, v = pair()
    ladj = torch.linalg.slogdet(w)[1]
    flow = SimpleNamespace(
        forward=lambda x: (x @ w.T, ladj.expand(len(x))),
        inverse=lambda z: (z @ v.T, -ladj.expand(len(z))),
    )
    flow.event_shape = (D,)
    return flow
"""
TRIP = "map/inverse"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose classes keep what they compute when they are built."""
    path = tmp_path_factory.mktemp("user") / "kept.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("law", [TRIP, "map/inverse[latents]"])
@pytest.mark.parametrize("name", ["Exponential", "Rotation", "learned", "closed"])
def test_what_building_rounds_is_right(name: str, law: str, file: Path) -> None:
    """A matrix and its inverse, both computed once, undo each other up to the rounding of both: kept
    as buffers, in a closure, or beside parameters that are trained.
    """
    assert checking.pair_verdict(f"{file}:{name}", law).status is Status.HOLDS


def test_the_rounding_of_a_building_is_seen_by_building_again_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that doubt a rotation that is computed once would be accused: noise within calls does
    not show how far it is from one.
    """
    monkeypatch.setattr("flowref.checking.review.built_again", lambda judgement: judgement)
    assert checking.pair_verdict(f"{file}:Rotation", TRIP).status is Status.VIOLATED


@pytest.mark.parametrize("name", ["buggy", "buggy_learned"])
def test_what_is_wrong_beside_it_is_accused(name: str, file: Path) -> None:
    """An error of 1e-9 that is put into the inverse when it is kept is no rounding of the building."""
    assert checking.pair_verdict(f"{file}:{name}", TRIP).status is Status.VIOLATED


@pytest.mark.parametrize("size", ["1e-10", "1e-6"])
def test_a_defect_of_calls_is_no_rounding_of_the_building(size: str) -> None:
    """A mutant of an object that is rounded while it is built is caught: it stays what it is in each
    building.
    """
    spec = f"zuko:RotationTransform?features=64&mutant={TRIP}#inverse-scaled@{size}"
    assert checking.pair_verdict(spec, TRIP).status is Status.VIOLATED


def test_building_again_changes_what_is_kept_and_is_put_back(file: Path) -> None:
    """Inside, calls are of an object that is built otherwise, the same for the same seed; outside,
    the object is itself.
    """
    subject = load(parse_target(f"{file}:Exponential"))
    assert subject.rounded_build is not None
    assert subject.forward is not None
    x = np.ones((2, 64))
    before = subject.forward(x).value
    seen = []
    for seed in (1, 1, 2):
        with subject.rounded_build(seed, 2.0**-43) as differs:
            assert differs
            seen.append(subject.forward(x).value)
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], before)
    assert np.allclose(seen[0], before, rtol=1e-8)
    assert np.array_equal(subject.forward(x).value, before)


@pytest.mark.parametrize("history", ["warm", "trained"])
def test_what_building_does_not_round_is_no_other_object(
    history: Literal["warm", "trained"],
) -> None:
    """Parameters that are drawn are not rounded while they are made: there is nothing to build
    again.
    """
    subject = load(parse_target("zuko:NICE"), Condition(history=history))
    assert subject.rounded_build is not None
    with subject.rounded_build(1, 2.0**-43) as differs:
        assert not differs
