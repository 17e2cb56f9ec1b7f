"""The trained state, and the numbers that an object holds: what laws visit beyond the object as it
was given.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref.backends.torch.numbers import numbers_of
from flowref.backends.torch.training import train_object
from flowref.backends.training import STEPS
from flowref.model import Dialect, Facts, Unsupported

BOUND = 4.75


def formula(x: Any) -> Any:
    """A function of the module that a method leaves its work to."""
    low, high = -5.25, 5.5
    return torch.where((x > low) & (x < high), x, x)


class Shift(nn.Module):
    """A shift, which may break after so many steps."""

    def __init__(self, breaks: int = 0, how: str = "") -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.edge, self.breaks, self.how, self.steps = 2.5, breaks, how, 0

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        self.steps += 1
        z = torch.where(x > BOUND, x, formula(x)) + self.shift
        if self.breaks and self.steps >= self.breaks:
            if self.how == "raises":
                raise IndexError("out of range")
            z = z * torch.inf
        return z, z.new_zeros(len(x))


DIALECT = Dialect(forward=lambda obj, x, context=None: obj(x))


def trained(obj: Any) -> Any:
    """The training of an object."""
    return train_object(obj, DIALECT, Facts((2,)), torch.float64, 0)


def test_training_moves_parameters_and_is_repeatable() -> None:
    """The same steps from the same start, of which the loss falls."""
    first, again = trained(Shift()), trained(Shift())
    assert len(first.losses) == STEPS
    assert first.losses == again.losses
    assert not first.error
    assert first.obj.shift.detach().abs().min() > 0.1
    assert not first.obj.training
    assert first.obj.shift.grad is None


def test_training_that_raises_leaves_the_last_state() -> None:
    """What an object did before it was trained is no excuse, and what raised is told."""
    ended = trained(Shift(7, "raises"))
    assert ended.error == "step 7 raises IndexError: out of range"
    assert len(ended.losses) == 6
    assert torch.isfinite(ended.obj.shift).all()


def test_a_loss_that_is_not_finite_ends_the_training() -> None:
    """The state is the last one of which it was."""
    ended = trained(Shift(5))
    assert ended.error == "the loss is inf at step 5"
    assert len(ended.losses) == 4


def test_what_has_nothing_to_train_is_refused() -> None:
    """With a reason."""
    with pytest.raises(Unsupported, match="no parameters"):
        trained(nn.Identity())


@pytest.mark.parametrize("number", [2.5, BOUND, 3.25, -5.25, 5.5])
def test_the_numbers_of_an_object_are_found(number: float) -> None:
    """Attributes under any name, names of its module in its code, small buffers, and what stands in
    the functions of its module that its code names, in tuples as well.
    """
    obj = Shift()
    obj.register_buffer("knots", torch.tensor([3.25, 1.125]))
    assert number in numbers_of(obj)
