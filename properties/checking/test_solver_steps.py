"""What falls with the steps of a solver, of which nobody states how accurate it is, accuses nobody; what
does not fall is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.backends.torch.refining import refine
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Euler(nn.Module):
    """A field of two entries, followed in a few steps of Euler's method; or with a slip."""

    event_shape = (2,)

    def __init__(self, slip: str = "") -> None:
        super().__init__()
        self.n_steps, self.slip = 16, slip
        self.weight = nn.Parameter(torch.tensor([[0.3, -0.4], [0.5, 0.2]]))

    def follow(self, x: Any, sign: int) -> Any:
        """The state and the integral of the trace."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(self.n_steps):
            slope = 1 - torch.tanh(x @ self.weight).square()
            ladj = ladj + sign * (slope * self.weight.diagonal()).sum(1) / self.n_steps
            x = x + sign * torch.tanh(x @ self.weight) / self.n_steps
        return x, 1.1 * ladj if self.slip == "scaled" else ladj

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.follow(x, 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.follow(z, 1 if self.slip == "not-reversed" else -1)


LAWS = ("bijection/log-det", "bijection/inverse-roundtrip")


@pytest.mark.parametrize("law", LAWS)
def test_coarse_steps_are_not_accused(law: str) -> None:
    """An error of first order is that of the method."""
    assert check(Euler(), law, QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize(
    ("slip", "law"),
    [("scaled", "bijection/log-det"), ("not-reversed", "bijection/inverse-roundtrip")],
)
def test_what_no_step_makes_smaller_is_accused(slip: str, law: str) -> None:
    """However many steps there are."""
    assert check(Euler(slip), law, QUICK).status is Status.VIOLATED


def test_knobs_are_turned_by_their_names() -> None:
    """Numbers of steps grow; their lengths and tolerances shrink; other numbers stay."""
    module = Euler()
    inner: Any = nn.Identity()
    inner.step_size, inner.options, inner.width = 0.1, {"rtol": 1e-3, "hidden": 4}, 3
    module.add_module("inner", inner)
    assert len(refine(module, 2)) == 3
    assert module.n_steps == 32
    assert (inner.step_size, inner.options["rtol"]) == pytest.approx((0.05, 1e-3 / 16))
    assert (inner.width, inner.options["hidden"]) == (3, 4)
