"""An ordinary event of many entries has some that lie far out, and is judged in float32 all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.backends.torch import derivatives
from flowref.laws.common.digits import TRIALS
from flowref.laws.conduct.single_precision import float32_agrees
from flowref.loading import load
from flowref.model import Batch
from flowref.model.abilities import Bijection, offers
from flowref.model.cost import Cost
from flowref.registry import parse_target


class Scale(nn.Module):
    """Each entry times a number; ``bug``: by way of the square of one that is large."""

    def __init__(self, entries: int = 1024, bug: bool = False) -> None:
        super().__init__()
        self.event_shape = (entries,)
        self.logarithm = nn.Parameter(0.1 * torch.ones(entries))
        self.bug = bool(bug)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        moved = (x + 1e5) ** 2 - 1e10 if self.bug else x
        value = (moved - x**2) / 2e5 if self.bug else moved
        return value * self.logarithm.exp(), self.logarithm.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.logarithm).exp(), -self.logarithm.sum().expand(len(z))


def residual(entries: int, bug: str = "") -> Any:
    """What the law finds at a point of which one entry is 9.5."""
    flow = load(parse_target(f"{Path(__file__)}:Scale?entries={entries}&bug={bug}&event={entries}"))
    assert offers(flow, Bijection)
    x = np.random.default_rng(0).standard_normal((1, entries))
    x[0, 1] = 9.5
    return float32_agrees.measure(flow, Batch(x, None, 1))


@pytest.mark.parametrize(("entries", "judged"), [(4, False), (1024, True)])
def test_one_entry_far_out_is_ordinary_among_many(entries: int, judged: bool) -> None:
    """Among few it lies where saturated functions amplify what nothing shows."""
    assert bool(np.all(residual(entries).decidable)) is judged


@pytest.mark.parametrize(("bug", "accused"), [("", False), ("1", True)])
def test_what_float32_loses_is_seen_among_many(bug: str, accused: bool) -> None:
    """A difference of large numbers is told from a product."""
    found = residual(1024, bug)
    assert bool((found.value > found.allowed).any()) is accused


@pytest.mark.parametrize(("bug", "moves"), [("", 1), ("1", TRIALS)])
def test_what_is_heavy_is_moved_until_its_errors_are_allowed(
    bug: str, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More moves allow more, and change nothing then; an error that is never allowed is told as ever."""
    asked: list[str] = []
    along = derivatives.along

    def counted(live: Any, which: str, *inputs: Any) -> Any:
        asked.append(which)
        return along(live, which, *inputs)

    monkeypatch.setattr(derivatives, "along", counted)
    monkeypatch.setattr(Cost, "heavy", True)
    found = residual(1025, bug)
    assert asked.count("forward") == moves
    assert bool((found.value > np.asarray(found.allowed)).any()) is bool(bug)
