"""What comes of parameters alone is computed once a call, and the call gives the same bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from flowref.backends import Blueprint
from flowref.backends.torch import present
from flowref.backends.torch.parameter_cache import WORTH, Folding, folding_of, run_with_folding
from flowref.model import Condition, Cost, Dialect, Facts
from flowref.model.cost import CallCost

SIDE = 80


class Masked(nn.Module):
    """A loop with a masked weight; ``how`` it is spoilt."""

    mask: torch.Tensor

    def __init__(self, how: str = "") -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE, generator=generator) / SIDE)
        self.register_buffer("mask", torch.ones(SIDE, SIDE).tril())
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ten turns."""
        masked = []
        for turn in range(10):
            weight = self.mask * self.weight
            if self.how == "writes":
                weight.mul_(1 + turn)
            if self.how == "writes later" and turn == 5:
                weight.mul_(2)
            if self.how == "moves the parameter":
                with torch.no_grad():
                    self.weight.mul_(1.5)
            if self.how == "draws":
                weight = weight * torch.rand_like(self.weight)
            masked.append(weight)
            x = nn.functional.linear(x, weight)
        return x + sum(one.sum() for one in masked)


HOWS = ("", "writes", "writes later", "moves the parameter", "draws")


@pytest.mark.parametrize("how", HOWS)
def test_a_folded_call_gives_what_the_plain_call_gives(how: str) -> None:
    """Whatever the call writes to or draws."""
    assert SIDE**2 >= WORTH
    x = torch.randn(3, SIDE, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(3)
    plain = Masked(how)(x)
    torch.manual_seed(3)
    module = Masked(how)
    assert torch.equal(plain, run_with_folding(module, lambda: Masked.forward(module, x)))


def test_what_comes_of_parameters_is_computed_once() -> None:
    """Ten products with a mask are one, and products with points stay ten."""
    module, x = Masked(), torch.ones(1, SIDE)
    whole = folding_of(module)
    with whole:
        module(x)
    assert list(whole.handed.values()) == [10]
    mode = Folding(list(module.parameters()))
    with mode:
        module(x)
    assert not mode.results  # the mask is not among the constants


def test_gradients_go_through_a_folded_call() -> None:
    """Each of the ten products hands back its share."""
    module, x = Masked(), torch.ones(1, SIDE)
    (expected,) = torch.autograd.grad(module(x).sum(), module.weight)
    with folding_of(module):
        (got,) = torch.autograd.grad(module(x).sum(), module.weight)
    assert torch.equal(expected, got)


class Stepwise(nn.Module):
    """Steps with one masked weight; in train mode it keeps an average of what they gave."""

    mask: torch.Tensor
    average: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 256)
        self.register_buffer("mask", torch.ones(256, 256).tril())
        self.register_buffer("average", torch.zeros(256))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Some turns."""
        for _ in range(5):
            x = nn.functional.linear(x, self.mask * self.weight)
        if self.training:
            self.average += 0.1 * x.detach().mean(0)
        return x, x.sum(-1)


@pytest.mark.parametrize("way", ["forward", "back"])
def test_a_batch_in_train_mode_leaves_the_same_behind(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where weights are masked once for all steps of it, as in each."""
    dialect = Dialect(forward=lambda obj, x, context: obj(x))
    if way == "back":
        dialect = replace(dialect, inverse=dialect.forward, normalizing="inverse")
    calls = {dialect.normalizing: CallCost(repeats=True)}
    facts = Facts((256,), cost=Cost(calls))
    states, folds = [], []

    def noted(obj: object, run: Any) -> Any:
        folds.append(obj)
        return run_with_folding(obj, run)

    for fold in (noted, lambda obj, run: run()):
        monkeypatch.setattr(present, "run_with_folding", fold)
        torch.manual_seed(4)
        module = Stepwise()
        present.warm(module, dialect, facts, torch.float32, 5)
        states.append(module.average)
    assert len(folds) == 1
    assert torch.equal(*states) and bool(states[0].any())


def test_what_takes_hundreds_of_steps_lives_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its weights are moved it is the same whatever they are moved by; each gets a copy."""
    call, warm, lived = (lambda obj, x, context: obj(x)), present.warm, []
    dialect = Dialect(forward=call, inverse=call, normalizing="inverse")
    facts = Facts((256,), cost=Cost({"inverse": CallCost(repeats=True)}))

    def noted(*details: Any) -> None:
        lived.append(details[0])
        warm(*details)

    monkeypatch.setattr(present, "warm", noted)
    x = torch.randn(1, 256, generator=torch.Generator().manual_seed(1)).numpy()
    values = []
    for scale in (0.0, 0.3, 0.0):
        made_of = Blueprint("steps", Stepwise, dialect, facts)
        subject = present.present(made_of, Condition(scale=scale))
        assert subject.forward is not None
        values.append(subject.forward(x).value)
    assert len(lived) == 1 and bool(lived[0].average.any())
    assert (values[0] != values[1]).any() and (values[0] == values[2]).all()
