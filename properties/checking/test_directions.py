"""Weights in further directions: what shows there alone is found, and weights that no flow has are not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check, checking, registry
from flowref.checking import Settings
from flowref.model import Status

FOLD = "map/one-to-one[orientation]"


class Bump(nn.Module):
    """y = x + a tanh(x) of three features, which folds where an a is less than -1."""

    event_shape = (3,)

    def __init__(self, constrained: bool) -> None:
        super().__init__()
        self.a, self.constrained = nn.Parameter(torch.full((3,), 0.5)), constrained

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Value and log-det."""
        a = nn.functional.softplus(self.a) - 1 if self.constrained else self.a
        return x + a * x.tanh(), (1 + a * (1 - x.tanh() ** 2)).abs().log().sum(-1)


class Positive(nn.Module):
    """y = s x for positive s, whose logarithm is nan for others; or y = sqrt(s) x."""

    event_shape = (3,)

    def __init__(self, root: bool) -> None:
        super().__init__()
        self.s, self.root = nn.Parameter(torch.full((3,), 0.2)), root

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Value and log-det."""
        scale = self.s.sqrt() if self.root else self.s
        return x * scale, scale.log().sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """The inverse and its log-det."""
        scale = self.s.sqrt() if self.root else self.s
        return z / scale, -scale.log().sum().expand(len(z))


@pytest.mark.parametrize("constrained", [True, False])
def test_a_fold_at_some_weights_is_found(constrained: bool) -> None:
    """A missing constraint shows in a few directions, a kept one in none."""
    expected = Status.HOLDS if constrained else Status.VIOLATED
    assert check(Bump(constrained), FOLD).status is expected


def test_one_direction_misses_it() -> None:
    """Without further directions the same law holds."""
    law = replace(registry.find_law(FOLD), scanned=False)
    assert checking.pair_verdict(Bump(False), law, Settings()).status is Status.HOLDS


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("law", [law.id for law in registry.laws() if law.scanned])
def test_weights_that_no_flow_has_are_not_judged(law: str, root: bool) -> None:
    """Nowhere finite, they lie outside of the set that the object expects."""
    assert check(Positive(root), law).status in (Status.HOLDS, Status.NOT_APPLICABLE)
