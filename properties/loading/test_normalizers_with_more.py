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

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.bns = nn.ModuleList([nn.BatchNorm1d(4) for _ in range(2)])
        self.bug = bug

    def forward(self, x: Any, y: Any) -> Any:
        """Each row by the layer of its label."""
        out = torch.zeros_like(x)
        for label, layer in enumerate(self.bns):
            rows = (y == label).nonzero()[:, 0]
            if len(rows) > 1 or (len(rows) and not (self.training or self.bug)):
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


class Scaled(nn.Module):
    """A batch norm whose output is multiplied by one learned number."""

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.scale = nn.BatchNorm2d(3), nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Any) -> Any:
        """The map."""
        return self.scale * self.bn(x)


class Pooled(nn.Module):
    """A batch norm that holds the mean and the sum of squares of all values so far (Welford); a bug
    moves the mean before it takes the distance to the batch.
    """

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.bug = bug
        for name in ("mean", "m2"):
            self.register_buffer(name, torch.zeros(3))
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        """The map."""
        held = dict(self.named_buffers())
        if not self.training:
            return (x - held["mean"]) / (held["m2"] / held["n"].clamp(min=1) + 1e-5).sqrt()
        mean, var, count = x.mean(0), x.var(0, unbiased=False), float(len(x))
        with torch.no_grad():
            seen = held["n"] + count
            apart = mean - held["mean"]
            held["mean"] += apart * count / seen
            apart = mean - held["mean"] if self.bug else apart
            held["m2"] += var * count + apart**2 * held["n"] * count / seen
            held["n"] += count
        return (x - mean) / (var + 1e-5).sqrt()


class Merged(nn.BatchNorm1d):
    """A batch norm that holds the variance of all values so far, divided by one less than their number."""

    def __init__(self) -> None:
        super().__init__(3, momentum=None)

    def forward(self, x: Any) -> Any:
        """The map."""
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
            rows, before = float(len(x)), self.num_batches_tracked.double()  # it counts rows
            with torch.no_grad():
                apart, seen = mean - self.running_mean, before + rows
                squares = self.running_var * (before - 1).clamp(min=0) + var * rows
                squares = squares + apart**2 * before * rows / seen
                self.running_var.copy_(squares / (seen - 1).clamp(min=1))
                self.running_mean.add_(apart * rows / seen)
                self.num_batches_tracked += len(x)
        return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias


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
    for law in ("batch-norm/train-map", "batch-norm/eval-map", "same/rows"):
        assert check(spec(name), law).status is Status.HOLDS, law


def test_a_row_alone_of_its_label_is_normalized_in_eval_mode() -> None:
    """Where it is not, rows depend on each other."""
    verdict = check(f"{spec('OneOfTwo')}?bug=True", "same/rows")
    assert verdict.status is Status.VIOLATED


@pytest.mark.parametrize("name", ["Scaled", "Pooled", "Merged"])
@pytest.mark.parametrize(
    "law",
    ["running-update", "matches-reference", "moments", "backward-closed-form", "statistics-follow"],
)
def test_what_no_attribute_holds_alone_has_no_name(name: str, law: str) -> None:
    """A weight that is multiplied by a number for all channels, and a variance that is a sum divided by
    a count, are not taken for what their attributes hold; nor is a variance of all values accused.
    """
    status = check(spec(name), f"batch-norm/{law}").status
    assert status in (Status.HOLDS, Status.NOT_APPLICABLE)


def test_a_sum_of_squares_is_held_to_what_calls_show() -> None:
    """Where the distance of the means is taken too late, the variance does not follow."""
    verdict = check(f"{spec('Pooled')}?bug=True", "batch-norm/statistics")
    assert verdict.status is Status.VIOLATED
