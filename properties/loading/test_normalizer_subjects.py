"""Batch normalizers are found where they are, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import checking, loading, registry
from flowref.model import ROLES, RUNNING, Normalizer, SpecError, Status, Subject, TargetError
from flowref.model.steps import Normalize, Roles, Train


class OwnBatchNorm(nn.Module):
    """Written from scratch, its parameters shaped for images that are flattened."""

    running_mean: Any
    running_variance: Any

    def __init__(self, num_channels: int = 3) -> None:
        super().__init__()
        self.eps, self.momentum = 1e-5, 0.1
        self.gamma = nn.Parameter(torch.ones(1, num_channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, num_channels, 1))
        self.register_buffer("running_mean", torch.zeros(1, num_channels, 1))
        self.register_buffer("running_variance", torch.ones(1, num_channels, 1))

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        flat = x.flatten(2)
        mean, var = self.running_mean, self.running_variance
        if self.training:
            mean, var = (
                flat.mean((0, 2), keepdim=True),
                flat.var((0, 2), keepdim=True, unbiased=False),
            )
            values = flat.shape[0] * flat.shape[2]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_variance.lerp_(var * values / (values - 1), self.momentum)
        return (self.gamma * (flat - mean) / torch.sqrt(var + self.eps) + self.beta).view(x.shape)


class Sequences(nn.BatchNorm1d):
    """Derived from torch's layer."""


class Wrapped(nn.Module):
    """A layer around torch's, by its name nothing in particular."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.inner = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        return self.inner(x)


class Declared(Wrapped):
    """A layer that says what it is."""

    kind = "batch-norm"


class BatchNormLayer(Wrapped):
    """A layer that says so by its name."""


class ConvBatchNorm(Wrapped):
    """A block that is named after one of its layers."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(channels)
        self.conv = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Any) -> Any:
        """Convolve and normalize a batch."""
        return self.inner(self.conv(x))


class ZScore(nn.Module):
    """Mean and sum of squares of all that came so far, with their number; a batch is normalized by them,
    and has entered them, unless it enters behind.
    """

    mean: Any
    squares: Any
    count: Any

    def __init__(self, channels: int = 3, behind: bool = False) -> None:
        super().__init__()
        self.eps, self.behind = 1e-5, behind
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("squares", torch.zeros(channels))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        """Normalize a batch."""
        if self.behind:
            y = self.normalized(x)
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                gap, share = x.mean(0) - self.mean, len(x) / self.count
                self.squares += ((x - x.mean(0)) ** 2).sum(0) + gap**2 * len(x) * (1 - share)
                self.mean += share * gap
        return y if self.behind else self.normalized(x)

    def normalized(self, x: Any) -> Any:
        """By what is held."""
        return (x - self.mean) / (self.squares / self.count.clamp(min=1) + self.eps).sqrt()


class BatchNormFlow(nn.Module):
    """A flow layer: a bijection in eval mode, and a normalizer."""

    def __init__(self, features: int = 3) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(features)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        inner: Any = self.inner
        y = inner(x)
        var = x.var(0, unbiased=False) if self.training else inner.running_var
        return y, (torch.log(abs(inner.weight)) - 0.5 * torch.log(var + inner.eps)).sum().expand(
            len(x)
        )

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        if self.training:
            raise NotImplementedError("the inverse is defined in eval mode only")
        inner: Any = self.inner
        scale = inner.weight / torch.sqrt(inner.running_var + inner.eps)
        x = (z - inner.bias) / scale + inner.running_mean
        return x, -torch.log(abs(scale)).sum().expand(len(z))


def instance_norm() -> Any:
    """Statistics of each point alone."""
    return nn.InstanceNorm2d(3, affine=True)


def group_norm() -> Any:
    """Statistics of each point alone."""
    return nn.GroupNorm(1, 3)


def grouped() -> Any:
    """Statistics of groups of channels of each point."""
    return nn.GroupNorm(2, 4)


def hidden_mode(**options: Any) -> Any:
    """A module of which neither train() nor eval() can be called."""
    module = OwnBatchNorm(**options)
    vars(module)["train"] = True
    return module


INSTANCE = Sequences(4)
DOTTED = {
    role: f"inner.{role}"
    for role in ("weight", "bias", "running_mean", "running_var", "eps", "momentum")
}
OWN = {
    "weight": "gamma", "bias": "beta", "running_mean": "running_mean", "running_var": "running_variance", "eps": "eps",
    "momentum": "momentum",
}  # fmt: skip


def loaded(name: str) -> Subject:
    """The subject of something in this file, or of a library's construction."""
    return loading.load(
        registry.parse_target(
            name if name.split(":")[0] in registry.adapters() else f"{__file__}:{name}"
        )
    )


def test_roles_are_known() -> None:
    """The roles of these properties are roles."""
    assert {*DOTTED, *OWN} <= set(ROLES)


@pytest.mark.parametrize(
    ("name", "shape", "roles"),
    [
        ("OwnBatchNorm", (3, 2, 4), OWN),
        ("OwnBatchNorm?num_channels=2", (2, 3, 4), OWN),
        ("OwnBatchNorm?event=3,5", (3, 5), OWN),
        ("Sequences?num_features=3", (3, 4), {"num_batches": "num_batches_tracked"}),
        ("INSTANCE", (4, 3), {"num_batches": "num_batches_tracked"}),
        ("Wrapped?kind=batch-norm", (3, 2, 4), DOTTED),
        ("Wrapped", (3, 2, 4), DOTTED),
        ("Declared", (3, 2, 4), DOTTED),
        ("BatchNormLayer", (3, 2, 4), DOTTED),
        ("BatchNormFlow", (3,), DOTTED),
        ("hidden_mode", (3, 2, 4), OWN),
        ("nflows:BatchNorm", (4,), {"weight": "weight", "running_var": "running_var"}),
        ("glasflow:nflows.BatchNorm", (4,), {"weight": "weight", "running_var": "running_var"}),
        ("normflows:BatchNorm", (4,), {"eps": "eps"}),
        (
            "pyro:BatchNorm",
            (4,),
            {"weight": "constrained_gamma", "running_var": "moving_variance", "eps": "epsilon"},
        ),
        ("torch:BatchNorm3d", (2, 2, 1, 2), {"weight": "weight"}),
    ],
)
def test_a_normalizer_is_found(name: str, shape: tuple[int, ...], roles: dict[str, str]) -> None:
    """A normalizer's event shape and the attributes that play its roles are found, and in train
    mode it normalizes.
    """
    subject = loaded(name)
    assert subject.normalizer is not None and subject.play is not None
    assert subject.event_shape == shape
    assert roles.items() <= subject.normalizer.roles.items()
    x = 5 + 2 * np.random.default_rng(0).standard_normal((8, *shape))
    played, _, normalized = subject.play([Roles(), Train(), Normalize(x)], fresh=True)
    assert {role for role, value in played.items() if value is not None} == set(
        subject.normalizer.roles
    )
    axes = (0, *range(2, x.ndim))
    assert np.allclose(normalized.mean(axes), 0, atol=1e-5) and np.all(normalized.std(axes) < 1.01)


@pytest.mark.parametrize(
    ("name", "statistics"),
    [("instance_norm", "instance"), ("group_norm", "layer"), ("grouped", "group")],
)
def test_another_normalizer_is_named_as_what_it_is(name: str, statistics: str) -> None:
    """What normalizes each sample by itself is told from what normalizes batches."""
    found = loaded(name).normalizer
    assert found is not None and found.statistics == statistics


@pytest.mark.parametrize(
    "name",
    [
        "ConvBatchNorm",
        "BatchNormFlow?kind=bijection",
        "nflows:ActNorm",
        "normflows:ActNorm",
        "torchflows:ActNorm",
        "FrEIA:ActNorm",
        "nflows:SimpleRealNVP[batch_norm]",
    ],
)
def test_nothing_else_is_a_normalizer(name: str) -> None:
    """Blocks around a normalizer, and what is said to be something else, are no normalizers."""
    assert loaded(name).normalizer is None


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.BatchNorm1d(4), (4, 3)),
        (lambda: nn.BatchNorm2d(3, track_running_stats=False), (3, 2, 4)),
        (lambda: nn.BatchNorm3d(2, affine=False), (2, 3, 4, 1)),
        (lambda: nn.SyncBatchNorm(3), (3, 2, 4)),
        (lambda: nn.BatchNorm2d(512), (512, 1, 2)),
    ],
)
def test_layers_of_torch_are_taken_as_they_are(build: Any, shape: tuple[int, ...]) -> None:
    """A layer of torch.nn that a user passes is a normalizer of events of its own rank."""
    subject = loading.load(loading.snapshot(build()))
    assert isinstance(subject.normalizer, Normalizer) and subject.event_shape == shape


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("Wrapped?kind=batchnorm", SpecError, "did you mean batch-norm"),
        ("nflows:BatchNorm?kind=batch-norm", SpecError, "objects of your own"),
        (
            "OwnBatchNorm?event=5,2,3",
            TargetError,
            "the shape that .event= gives",
        ),
        (
            "OwnBatchNorm?num_channels=1&event=3,2,2",
            TargetError,
            "have 3 channels, but its running_mean is for 1",
        ),
        ("ZScore?behind=True&kind=batch-norm", TargetError, "comes out 4 times as wide"),
        ("instance_norm?kind=batch-norm", TargetError, "standardizes each sample over its axes"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    name: str, error: type[Exception], said: str
) -> None:
    """An unknown kind, a kind for what is known, and a shape that does not fit say what was given
    and the way out.
    """
    with pytest.raises(error, match=said):
        loaded(name)


@pytest.mark.parametrize("options", ["", "?kind=batch-norm"])
def test_a_named_kind_is_judged_by_what_it_does(options: str) -> None:
    """Running averages that no attribute holds are what calls show, also where they are called batch norm: no
    name of an attribute speaks for them, and no law of batch statistics.
    """
    found = loaded(f"ZScore{options}").normalizer
    assert found is not None and (found.statistics, found.roles) == (RUNNING, {})


def test_a_hidden_mode_is_one_violation() -> None:
    """Where an attribute hides the method train, the protocol of modes is violated, and purity in
    eval mode still holds.
    """
    name = f"{__file__}:hidden_mode"
    settings = checking.Settings("quick")
    verdict = checking.pair_verdict(name, "mode/protocol", settings)
    assert verdict.status is Status.VIOLATED and "'bool' object is not callable" in verdict.reason
    assert checking.pair_verdict(name, "effects/state[eval]", settings).status is Status.HOLDS
    assert checking.pair_verdict(name, "same/saved[resume]", settings).status is Status.HOLDS


def test_a_convention_can_be_declared() -> None:
    """A promise in the spec, or of the object, declares a convention: deviating from torch is then
    no surprise.
    """
    found = loaded("OwnBatchNorm?promises=momentum=keep,running_var=biased").normalizer
    assert found is not None and found.declared == {"momentum": "keep", "running_var": "biased"}
    module = OwnBatchNorm()
    module.promises = {"single": "accepted"}  # type: ignore[assignment]  # torch types attributes as tensors or modules
    found = loading.load(loading.snapshot(module)).normalizer
    assert found is not None and found.declared == {"single": "accepted"}
