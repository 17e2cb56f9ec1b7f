"""What normalizes batches as it is built, or at first, and is meant for more; and normalizers that
are told of a label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class MovingBatchNorm(nn.Module):
    """A layer of a flow that mixes the moments of a batch with running ones, and corrects for the
    start: its first batch is normalized by its own mean.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))
        self.register_buffer("step", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        """The map, with its log-det."""
        buffers = dict(self.named_buffers())
        mean, var = buffers["running_mean"].clone(), buffers["running_var"].clone()
        if self.training:
            moments = x.mean(0), x.var(0)
            share = 1 - 0.5 ** (buffers["step"] + 1)
            with torch.no_grad():
                for name, value in zip(("running_mean", "running_var"), moments, strict=True):
                    buffers[name].lerp_(value, 0.1)
                buffers["step"] += 1
            mean, var = (
                (one + old) / 2 / share for one, old in zip(moments, (mean, var), strict=True)
            )
        ladj = (self.weight - 0.5 * (var + 1e-4).log()).sum().expand(len(x))
        return (x - mean) / (var + 1e-4).sqrt() * self.weight.exp() + self.bias, ladj


class CenteredBatchNorm(nn.BatchNorm1d):
    """A batch norm that learns to take away a part of the mean of each sample, and as built does
    not.
    """

    def __init__(self) -> None:
        super().__init__(4)
        self.center_weight = nn.Parameter(torch.zeros(1, 4, 1))

    def forward(self, x: Any) -> Any:
        """The map."""
        return super().forward(x + self.center_weight * x.mean(2, keepdim=True))


class OneOfTwo(nn.Module):
    """A batch norm for each of two domains, whose labels come beside the points."""

    def __init__(self, slip: bool = False) -> None:
        super().__init__()
        self.bns = nn.ModuleList([nn.BatchNorm1d(4) for _ in range(2)])
        self.slip = slip

    def forward(self, x: Any, y: Any) -> Any:
        """Each row by the layer of its label."""
        out = torch.zeros_like(x)
        for label, layer in enumerate(self.bns):
            rows = (y == label).nonzero()[:, 0]
            if len(rows) > 1 or (len(rows) and not (self.training or self.slip)):
                out[rows] = layer(x[rows])
            elif len(rows):
                out[rows] = x[rows]
        return out


class ByClass(nn.Module):
    """A batch norm whose weight and bias are rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(4, affine=False)
        self.embed = nn.Embedding(3, 8)
        self.embed.weight.data[:, :4].uniform_(0.5, 1.5)

    def forward(self, x: Any, y: Any) -> Any:
        """The map."""
        gamma, beta = self.embed(y).chunk(2, 1)
        return gamma[:, :, None, None] * self.bn(x) + beta[:, :, None, None]


def spec(name: str) -> str:
    """The target of a class of this file."""
    return f"{Path(__file__)}:{name}"


@pytest.mark.parametrize("name", ["MovingBatchNorm", "CenteredBatchNorm"])
def test_what_is_meant_for_more_is_no_batch_norm(name: str) -> None:
    """It is one of its first batch, or as built, and its laws are not asked of it."""
    assert "batch norm" not in recipe_of(parse_target(spec(name))).recognized.kind
    for law in ("train-map", "moments", "deviation"):
        assert check(spec(name), f"batch-norm/{law}").status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("name", ["OneOfTwo", "ByClass"])
def test_a_label_for_all_points_makes_a_batch_norm(name: str) -> None:
    """It is recognized by calls with one, since other numbers change nothing."""
    recognized = recipe_of(parse_target(spec(name))).recognized
    assert recognized.kind == "batch norm"
    assert "y: 1 for all points" in recognized.conventions
    for law in ("batch-norm/train-map", "batch-norm/eval-affine-map", "mode/rows-independent"):
        assert check(spec(name), law).status is Status.HOLDS, law


def test_a_row_alone_of_its_label_is_normalized_in_eval_mode() -> None:
    """Where it is not, rows depend on each other."""
    verdict = check(f"{spec('OneOfTwo')}?slip=True", "mode/rows-independent")
    assert verdict.status is Status.VIOLATED
