"""What comes of parameters alone is computed once a call, and the call gives the same bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flowref.backends.torch.folding import WORTH, Folding, folded, folding_of

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
    assert torch.equal(plain, folded(module, lambda: Masked.forward(module, x)))


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
