"""Relatives of batch norm are none, whatever their base class, where their name and their calls say so; what
only bears the name is one, and what does the same under another name is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check, registry
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status

QUICK = Settings("quick")
LAWS = (
    "batch-norm/train-map[reference]",
    "batch-norm/train-map",
)


class Plain(nn.BatchNorm1d):
    """Batch norm, that may go on."""

    event_shape = (3,)
    running_mean: Any
    running_var: Any

    def __init__(self, more: bool = True) -> None:
        super().__init__(3)
        self.more = more

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        y = super().forward(x)
        return self.going_on(x, y) if self.more else y

    def going_on(self, x: Any, y: Any) -> Any:
        """What it is besides."""
        return y


class BatchRenorm1d(Plain):
    """Statistics of a batch are corrected by averages (Ioffe, 2017)."""

    def going_on(self, x: Any, y: Any) -> Any:
        """In train mode alone; averages are those with the batch."""
        if not self.training:
            return y
        old = torch.sqrt(self.running_var + self.eps)
        r = (torch.sqrt(x.var(0, unbiased=False) + self.eps) / old).detach().clamp(0.5, 2.0)
        d = ((x.mean(0) - self.running_mean) / old).detach().clamp(-2.0, 2.0)
        return (y - self.bias) * r + self.weight * d + self.bias


class MovingBatchNorm(Plain):
    """Averages that the batch has entered."""

    def going_on(self, x: Any, y: Any) -> Any:
        """In both modes the same."""
        old = torch.sqrt(self.running_var + self.eps).clone()
        return self.weight * (x - self.running_mean.clone()) / old + self.bias


class BatchNormAct1d(Plain):
    """An activation behind it."""

    def going_on(self, x: Any, y: Any) -> Any:
        """In both modes."""
        return nn.functional.leaky_relu(y, 0.1)


class WhiteningBatchNorm(Plain):
    """Channels are decorrelated."""

    def going_on(self, x: Any, y: Any) -> Any:
        """In train mode."""
        if not self.training:
            return y
        centered = x - x.mean(0)
        values, vectors = torch.linalg.eigh(
            centered.T @ centered / len(x) + 1e-3 * torch.eye(3).to(x)
        )
        return centered @ vectors @ torch.diag(values.rsqrt()) @ vectors.T * self.weight + self.bias


class Derived(BatchNormAct1d):
    """A base of it says so."""


Unnamed: Any = type("BatchNormOfMine", (Plain,), {"going_on": BatchNormAct1d.going_on})
KIN = pytest.mark.parametrize(
    "kind", [BatchRenorm1d, MovingBatchNorm, BatchNormAct1d, WhiteningBatchNorm, Derived]
)


@KIN
@pytest.mark.parametrize("law", LAWS)
def test_relatives_are_no_batch_norm(kind: Any, law: str) -> None:
    """Laws of batch norm speak of something else."""
    assert check(kind(), law, QUICK).status is Status.NOT_APPLICABLE


@KIN
@pytest.mark.parametrize("law", LAWS)
def test_what_only_bears_the_name_is_one(kind: Any, law: str) -> None:
    """A name alone excuses nothing."""
    assert check(kind(more=False), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize(("more", "told"), [("true", True), ("false", False)])
def test_the_line_says_why_it_is_not_judged_as_its_name_says(more: str, told: bool) -> None:
    """Silence about a hundred laws would look like a pass."""
    target = registry.parse_target(f"{__file__}:MovingBatchNorm?more={more}")
    said = recipe_of(target).recognized.conventions
    assert any("no batch norm" in one for one in said) == told


def test_without_a_name_it_is_accused() -> None:
    """An output that is bent is no normalized one."""
    assert check(Unnamed(), LAWS[0], QUICK).status is Status.VIOLATED
