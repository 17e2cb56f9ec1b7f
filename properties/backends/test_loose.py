"""Tensors of what is no module: leaves that ask for a gradient are parameters; of others nothing tells,
and it is said.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, registry
from flowref.backends.torch.plain_tensors import HELD_BY, TOLD_BY, undeclared_tensors
from flowref.backends.torch.state import cast, duplicate, move, trainable
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status, Target
from flowref.model.not_judged import UNMOVED
from flowref.scripting import script

FLOW = """
import torch
from torch import nn

class Scale:
    event_shape = (3,)

    def __init__(self):
        weight = {weight}
        self.held = {held}
        self.base = torch.distributions.Normal(torch.zeros(3), torch.ones(3))

    def forward(self, x):
        return x * self.{at}.exp(), {bug} * self.{at}.sum().expand(len(x))

    def inverse(self, z):
        return z * (-self.{at}).exp(), -self.{at}.sum().expand(len(z))
"""
LEARNED = {
    "leaf": "torch.zeros(3, requires_grad=True)",
    "parameter": "nn.Parameter(torch.zeros(3))",
}
HELD = {
    "dict": ("{'a': weight}", "held['a']"),
    "list": ("[weight]", "held[0]"),
    "bare": ("weight", "held"),
}
ONES = torch.ones(3)
LEAF = torch.ones(3, requires_grad=True)


def flow(folder: Path, weight: str, how: str = "bare", bug: float = 1.0) -> Target:
    """One in a file, whose weights start at zero."""
    held, at = HELD[how]
    path = folder / "flows.py"
    path.write_text(FLOW.format(weight=weight, held=held, at=at, bug=bug))
    return registry.parse_target(f"{path}:Scale")


@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("weight", LEARNED)
@pytest.mark.parametrize(("bug", "status"), [(2.0, Status.VIOLATED), (1.0, Status.HOLDS)])
def test_what_asks_for_a_gradient_is_moved(
    tmp_path: Path, weight: str, how: str, bug: float, status: Status
) -> None:
    """A log-det of twice the sum of weights that start at zero is seen in what is no module."""
    target = flow(tmp_path, LEARNED[weight], how, bug)
    verdict = checking.pair_verdict(target, "map/log-det", Settings(profile="quick"))
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize("how", HELD)
def test_its_program_moves_it(tmp_path: Path, how: str) -> None:
    """Who runs it without flowref sees what was seen."""
    target = flow(tmp_path, LEARNED["leaf"], how, 2.0)
    verdict = checking.pair_verdict(target, "map/log-det", Settings(profile="quick"))
    program = tmp_path / "program.py"
    program.write_text(script(verdict), encoding="utf-8")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "VIOLATED map/log-det" in ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("weight", "said"),
    [("torch.zeros(3)", True), *((weight, False) for weight in LEARNED.values())],
    ids=["plain", *LEARNED],
)
def test_what_nothing_tells_is_said(tmp_path: Path, weight: str, said: bool) -> None:
    """Tensors that ask for nothing are not moved; its line says so, and laws of parameters wait."""
    target = flow(tmp_path, weight)
    recognized = recipe_of(target).recognized
    assert (f"{UNMOVED}: {TOLD_BY}" in recognized.conventions) is said
    verdict = checking.pair_verdict(target, "gradient/parameters[log-det]", Settings("quick"))
    assert (verdict.status is Status.NOT_APPLICABLE and verdict.blocked) is said


def test_constants_are_told_by_an_option(tmp_path: Path) -> None:
    """Who says that nothing is to be moved is told nothing."""
    target = registry.parse_target(f"{flow(tmp_path, 'torch.zeros(3)')}?perturb=0")
    assert not any(UNMOVED in said for said in recipe_of(target).recognized.conventions)


class Held:
    """An object that is no module and holds what it is given."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, ""),
        ({"weight": torch.zeros(2)}, TOLD_BY),
        ({"weights": {"a": [torch.ones(2, 2)]}}, TOLD_BY),
        ({"call": lambda x, weight=ONES: x * weight}, TOLD_BY),
        ({"call": lambda x, weight=LEAF: x * weight}, HELD_BY),
        ({"mask": torch.tensor([0.0, 1.0])}, ""),
        ({"order": torch.arange(3)}, ""),
        ({"base": torch.distributions.Normal(torch.zeros(2), torch.ones(2))}, ""),
        ({"layer": nn.Linear(2, 2)}, ""),
        ({"layer": nn.BatchNorm1d(2, affine=False)}, ""),
    ],
    ids=[
        "nothing",
        "zeros",
        "nested",
        "default",
        "leaf",
        "mask",
        "order",
        "base",
        "linear",
        "buffers",
    ],
)
def test_what_may_be_a_weight(held: dict[str, Any], expected: str) -> None:
    """Floating tensors outside of modules and base distributions, unless they are masks; of leaves that
    closures hold it is no gradient that lacks.
    """
    assert undeclared_tensors(Held(**held)) is expected


def test_a_leaf_is_one_parameter_wherever_it_is_held() -> None:
    """A list of the parameters beside them is no second set of them, in another precision either."""
    weight = torch.zeros(3, requires_grad=True)
    obj = cast(Held(weight=weight, all=[weight]), torch.float64)
    assert obj.weight is obj.all[0]
    assert obj.weight.dtype == torch.float64
    assert [name for name, _ in trainable(obj)] == ["all[0]"]


def test_what_is_computed_of_parameters_is_none() -> None:
    """In another precision it is no leaf that would be moved for itself."""
    weight = torch.ones(3, requires_grad=True)
    obj = cast(Held(weight=weight, scale=weight.exp()), torch.float64)
    assert [name for name, _ in trainable(obj)] == ["weight"]


def test_moving_a_copy_leaves_the_original() -> None:
    """Leaves are copied with what holds them."""
    obj = Held(weights={"a": torch.zeros(3, requires_grad=True)}, part=SimpleNamespace())
    copied = duplicate(obj)
    move(copied, 1.0, 0)
    (_, original), (_, moved) = *trainable(obj), *trainable(copied)
    assert bool(moved.all()) and not bool(original.any())


def test_parameters_of_modules_come_first() -> None:
    """What stands beside them is moved as well."""
    obj = Held(layer=nn.Linear(2, 2), shift=torch.zeros(2, requires_grad=True))
    assert [name for name, _ in trainable(obj)] == ["0.weight", "0.bias", "shift"]
