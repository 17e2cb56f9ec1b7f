"""Solvers and searches: what steps is recognized by what its calls take, and held to an accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flowref
from flowref import loading, registry
from flowref.adapters.user.solvers import integrates
from flowref.model import Status

STRANGE = Path(__file__).parents[1] / "adapters" / "strange.py"
SOLVERS = "flowref_zoo.specimens.solvers"
odeint: Any = pytest.importorskip("torchdiffeq").odeint
FOUND, SOLVED = "inverse-tolerance", "log-det-tolerance"


@pytest.mark.parametrize(
    ("spec", "promised"),
    [
        (f"{SOLVERS}:runge_kutta", {FOUND: 1e-5, SOLVED: 1e-4}),
        (f"{SOLVERS}:buffered", {FOUND: 1e-5, SOLVED: 1e-4}),
        (f"{SOLVERS}:logistic_mixture", {FOUND: 1e-5}),
        (f"{SOLVERS}:logistic_mixture?promises=inverse-tolerance=1e-9", {FOUND: "1e-9"}),
        ("flowref_zoo.specimens.coupling:affine_coupling", {}),
        ("flowref_zoo.specimens.solvers:shared_mask", {}),
        ("flowref_zoo.specimens.autoregressive:masked_autoregressive", {}),
        (f"{STRANGE}:Stacked", {}),
    ],
)
def test_what_steps_is_held_to_an_accuracy(spec: str, promised: dict[str, object]) -> None:
    """A solver and a search are recognized where they promise nothing; what goes through its
    coordinates one by one is neither.
    """
    promises = loading.load(registry.parse_target(spec)).promises
    found = {name: float(promises[name]) for name in (FOUND, SOLVED) if name in promises}
    assert found == {name: float(str(value)) for name, value in promised.items()}


@pytest.mark.parametrize("law", ["map/inverse", "map/inverse[latents]"])
def test_a_search_may_stop_at_a_rounding_of_one(law: str) -> None:
    """A bisection that stops within a rounding of 1 is right beside zero, and one that searches
    [-1000, 1000] is right though points lie farther out.
    """
    assert flowref.check(f"{SOLVERS}:logistic_mixture", law).status is Status.HOLDS


class Literal(nn.Module):
    """A field followed by torchdiffeq, with tolerances that stand in the call."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The state at the end."""
        times = torch.tensor([0.0, 1.0], dtype=x.dtype)
        end: torch.Tensor = odeint(lambda t, y: self.net(y).tanh(), x, times, rtol=1e-5, atol=1e-5)
        return end[-1]


def test_code_that_calls_a_solver_is_known() -> None:
    """By what its methods name, also within a container; others name none."""
    assert integrates(Literal()) and integrates(nn.Sequential(nn.Linear(2, 2), Literal()))
    assert not integrates(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
