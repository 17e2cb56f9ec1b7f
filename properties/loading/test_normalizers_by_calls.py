"""What a module normalizes by is told by calls, whatever it and what it holds are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.laws.batch_norm.channels_first import back, channels_to_front
from flowref.model import ROOT_MEAN_SQUARE, TargetError
from flowref.model.steps import Assign, Normalize, Roles, Train
from flowref.model.structure.forms import FORMS, Form

ZOO = "flowref_zoo.specimens"


class Statistics(nn.Module):
    """Mean and variance of each channel of a batch."""

    kept: Any

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(channels))

    def forward(self, x: Any, training: Any) -> Any:
        """The statistics of a batch."""
        mean = x.mean(0) if training else self.kept
        return mean, ((x - mean) ** 2).mean(0)


class SetOnce(nn.Module):
    """Standardizes the first batch that it sees, and is fixed from then on."""

    center: Any
    done: Any

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(channels))
        self.register_buffer("size", torch.ones(channels))
        self.register_buffer("done", torch.tensor(False))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if self.training and not self.done:
            self.center, self.size = x.mean(0).detach(), x.std(0).detach()
            self.done = torch.tensor(True)
        return (x - self.center) / self.size


class Paired(nn.Module):
    """Batch normalization over batch and positions that keeps mean and variance in one tensor, and
    weight and bias in another: channels last, of which there are half as many as numbers.
    """

    moments: Any

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        pair = torch.stack([torch.ones(channels), torch.zeros(channels)])
        self.affine = nn.Parameter(pair.clone())
        self.register_buffer("moments", pair.flip(0))

    def forward(self, x: Any) -> Any:
        """Normalize."""
        mean, variance = self.moments
        if self.training:
            mean, variance = x.mean((0, 1)), x.var((0, 1), unbiased=False)
            count = x[..., 0].numel()
            new = torch.stack([mean, variance * count / max(count - 1, 1)])
            self.moments.lerp_(new.detach(), 0.01)
        return (x - mean) / (variance + 1e-3).sqrt() * self.affine[0] + self.affine[1]


class MeanAbsolute(nn.Module):
    """Divides by the mean absolute deviation of a batch."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Any) -> Any:
        """Normalize."""
        moved = x - x.mean(0)
        return self.weight * moved / (moved.abs().mean(0) + 1e-5)


class Rectified(nn.Module):
    """A block whose last layer bends the normalized values."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.bend = nn.BatchNorm1d(3), nn.PReLU(3)

    def forward(self, x: Any) -> Any:
        """Normalize and bend."""
        return self.bend(self.norm(x))


class PartialRMSNorm(nn.Module):
    """The root mean square of the first half of the features, as its authors propose."""

    def __init__(self, features: int = 6) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x: Any) -> Any:
        """Scale each sample."""
        square = x[..., : x.shape[-1] // 2].pow(2).mean(-1, keepdim=True)
        return self.scale * x / (square + 1e-8).sqrt()


def loaded(name: str) -> Any:
    """The subject of a name in the zoo, in this file, or of torch."""
    known = name.split(":")[0]
    spec = f"{ZOO}.{name}" if "normalizer" in known else f"{__file__}:{name}"
    return loading.load(registry.parse_target(spec))


def test_two_numbers_of_a_channel_may_share_a_tensor() -> None:
    """Where no tensor has an entry per channel but each has two, what is normalized apart tells."""
    found = loaded("Paired?event=6,3").normalizer
    assert found is not None and found.channel == (1,)
    assert set(found.roles) >= {"running_mean", "running_var", "weight", "bias"}


@pytest.mark.parametrize(
    ("name", "statistics", "channel", "forms"),
    [
        ("normalizer_layers:short_names", "batch", (0,), {}),
        ("normalizer_layers:channels_last", "batch", (2,), {"weight": "softplus"}),
        ("normalizer_layers:sequences", "batch", (2,), {"weight": "one plus"}),
        ("normalizer_layers:functional_average", "batch", (0,), {"weight": "square"}),
        ("normalizer_flows:kept_momentum", "batch", (0,), {"weight": "exp"}),
        ("other_normalizers:running_averages", "running", (0,), {}),
        ("other_normalizers:groups", "group", (0, 1, 2), {}),
        ("other_normalizers:instances", "instance", (1, 2), {}),
        ("other_normalizers:layer", "layer", (0, 1, 2), {}),
    ],
)
def test_a_normalizer_is_told_by_calls(
    name: str, statistics: str, channel: tuple[int, ...], forms: dict[str, str]
) -> None:
    """What it normalizes by, over which axes, and in which form attributes hold its weight."""
    found = loaded(name).normalizer
    assert found is not None and found.evidence
    assert (found.statistics, found.channel) == (statistics, channel)
    assert {role: found.forms[role].kind for role in forms} == forms


@pytest.mark.parametrize(
    ("name", "axes"),
    [("roots", (2,)), ("roots?defect=no-root", None), ("responses", (1, 2)), ("lengths", (2,))],
)
def test_what_divides_by_the_root_mean_square_is_told(
    name: str, axes: tuple[int, ...] | None
) -> None:
    """Samples that a factor does not change, though a constant does, are divided by their root mean
    square; of what is called so that is believed, so that its bugs are seen.
    """
    found = loaded(f"mean_square_normalizers:{name}").normalizer
    assert found is not None and found.spread == ROOT_MEAN_SQUARE
    assert axes is None or found.channel == axes


def test_a_part_of_the_mean_square_is_no_bug_of_the_whole() -> None:
    """What is called so and divides by the root mean square of some features is none of these."""
    assert loaded("PartialRMSNorm").normalizer is None


@pytest.mark.parametrize("name", ["SetOnce", "MeanAbsolute", "Rectified"])
def test_what_only_looks_like_one_is_none(name: str) -> None:
    """A layer that its first batch sets, another measure of spread, and a block that bends its
    output are no batch normalizers.
    """
    assert loaded(name).normalizer is None


def test_the_call_that_normalizes_is_found() -> None:
    """Where forward makes data and inverse normalizes, inverse is the normalizing call."""
    subject = loaded("normalizer_flows:sampling_direction")
    assert subject.normalizer.call == "inverse" == subject.normalizing


def test_statistics_alone_are_refused_in_a_sentence() -> None:
    """A layer that returns mean and variance is no bijection, and the sentence says how to wrap
    it.
    """
    with pytest.raises(TargetError, match=r"it is no bijection .* wrap it .* layer\(x, self.train"):
        loaded("Statistics")


def test_a_role_in_a_form_can_be_read_and_set() -> None:
    """A weight that is kept as its logarithm is set to a number and read as that number, and the
    output has it.
    """
    subject = loaded("normalizer_flows:kept_momentum")
    x = np.random.default_rng(0).standard_normal((8, 3))
    weight = np.array([0.5, 2.0, 3.0])
    _, roles, _, y = subject.play([Assign("weight", weight), Roles(), Train(), Normalize(x)])
    assert np.allclose(roles["weight"], weight)
    assert np.allclose(y.std(0, ddof=1), weight, rtol=1e-3)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("row", [None, 1])
def test_a_form_goes_both_ways(kind: str, row: int | None) -> None:
    """What is held for a number tells that number, and the slope is the derivative of the number."""
    form, numbers = Form(kind, 0.0, row), np.array([0.3, 1.0, 1.7])
    if kind == "minus":
        numbers = -numbers
    before = np.ones(3) if row is None else np.ones((2, 3))
    held = form.held(numbers, before)
    assert np.allclose(form.number(held), numbers)
    step = 1e-6 * np.ones_like(held)
    slope = (form.number(held + step) - form.number(held - step)) / 2e-6
    gradient = np.ones_like(held) * 2.0
    assert np.allclose(form.gradient(gradient, held) * slope, 2.0)


@pytest.mark.parametrize("channel", [(0,), (1,), (2,), (0, 1, 2), (0, 2)])
def test_channels_first_and_back(channel: tuple[int, ...]) -> None:
    """A batch with its channels first goes back to what it was."""
    x = np.random.default_rng(1).standard_normal((5, 2, 3, 4))
    moved = channels_to_front(x, channel)
    assert moved.shape[:2] == (5, int(np.prod([x.shape[axis + 1] for axis in channel])))
    assert np.array_equal(back(moved, channel, (2, 3, 4)), x)
