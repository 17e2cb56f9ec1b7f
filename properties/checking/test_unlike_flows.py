"""Objects that are unlike flows in one thing: the right ones hold, and wrong twins are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.loading import snapshot
from flowref.model import Status
from flowref.registry import parse_target


class OwnGenerator(nn.Module):
    """A normal density that draws from a generator that it holds; ``jitter``: points are dithered by it."""

    event_shape = (2,)

    def __init__(self, generator: Any, jitter: float = 0.0) -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.tensor([0.3, -0.8]))
        self.generator, self.jitter = generator, jitter

    def drawn(self, *shape: int) -> Any:
        """Standard normal numbers, of torch's generators and of numpy's."""
        if isinstance(self.generator, torch.Generator):
            return torch.randn(*shape, generator=self.generator, dtype=self.loc.dtype)
        return torch.as_tensor(self.generator.standard_normal(shape), dtype=self.loc.dtype)

    def log_prob(self, x: Any) -> Any:
        """Of points."""
        z = x - self.loc + (self.jitter * self.drawn(*x.shape) if self.jitter else 0.0)
        return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(-1)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """So many points."""
        return self.loc + self.drawn(n, 2)


class Irrep(tuple[int, int]):
    """A representation, as e3nn has them: a tuple without a length."""

    def __len__(self) -> int:
        """Raise."""
        raise NotImplementedError


class Labelled(nn.Module):
    """A map that holds such a tuple."""

    event_shape = (2,)

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        self.irreps, self.bug = [Irrep((4, 0))], bug

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return 2 * x, x.new_full((len(x),), (2 + self.bug) * math.log(2))


class BatchRenorm(nn.Module):
    """Batch renormalization that averages deviations, eps added beside the root; ``share``: by how much more
    these move than the means.
    """

    event_shape = (4,)
    running_mean: Any
    running_std: Any

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_std", torch.ones(4))
        self.weight, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.share = share

    def forward(self, x: Any) -> Any:
        """A batch, normalized."""
        if not self.training:
            return self.weight * (x - self.running_mean) / self.running_std + self.bias
        mean, std = x.mean(0), x.std(0, unbiased=False) + 1e-3
        with torch.no_grad():
            r = (std / self.running_std).clamp(0.5, 2.0)
            d = ((mean - self.running_mean) / self.running_std).clamp(-2.0, 2.0)
            self.running_mean.lerp_(mean, 0.05)
            self.running_std.lerp_(std, 0.05 * self.share)
        return self.weight * ((x - mean) / std * r + d) + self.bias


class Bounded(nn.Module):
    """A scale between bounds, of which the upper one may be infinite; ``broken``: steps make a buffer so."""

    event_shape = (2,)
    steps: Any

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(2))
        self.register_buffer("upper_bound", torch.tensor(math.inf))
        self.register_buffer("steps", torch.ones(()))
        self.broken = broken

    def forward(self, x: Any) -> Any:
        """The image and the log-det."""
        if self.training and self.broken:
            self.steps.mul_(1e30)
        return x * self.raw.exp(), self.raw.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """The way back."""
        return z * (-self.raw).exp(), -self.raw.sum().expand(len(z))


class PairNorm(nn.Module):
    """The nodes of a graph, centred and scaled together; ``first``: the first one is left where it is."""

    event_shape = (4,)

    def __init__(self, first: bool = False) -> None:
        super().__init__()
        self.first = first

    def forward(self, x: Any, batch: Any = None) -> Any:
        """The nodes of one graph."""
        x = x - (x[:1] if self.first else x.mean(0, keepdim=True))
        return x / (1e-5 + x.square().sum(-1).mean()).sqrt()


class GraphNorm(nn.Module):
    """A norm over the nodes of one graph that takes a learned share of their mean away."""

    event_shape = (4,)

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        self.mean_scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        """The nodes of one graph."""
        out = x - x.mean(0, keepdim=True) * self.mean_scale
        return self.weight * out / (out.square().mean(0, keepdim=True) + 1e-5).sqrt() + self.bias


class NormAct(nn.BatchNorm1d):
    """A batch norm with an activation and dropout behind it, of a name of its own; ``bug``: its output is
    larger than it should be.
    """

    event_shape = (4,)

    def __init__(self, bug: bool = False) -> None:
        super().__init__(4)
        self.drop, self.act, self.bug = nn.Dropout(0.3), nn.ReLU(), bug

    def forward(self, x: Any) -> Any:
        """A batch."""
        y = super().forward(x)
        return self.act(self.drop(1.01 * y if self.bug else y))


class Standardize(nn.Module):
    """Its way back refuses until a batch has come in train mode; ``wrong``: it takes no mean away."""

    event_shape = (3,)
    mean: Any
    std: Any

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("std", torch.ones(3))
        self.ready, self.wrong = False, wrong

    def forward(self, x: Any) -> Any:
        """A batch."""
        if self.training:
            self.mean, self.std, self.ready = x.mean(0).detach(), x.std(0).detach(), True
        return (x - self.mean) / self.std

    def inverse(self, z: Any) -> Any:
        """The way back."""
        if not self.ready:
            raise RuntimeError("it must be called in train mode before")
        return z * self.std + (0.0 if self.wrong else self.mean)


class Unmarked(nn.Module):
    """Rows that meet, of which nothing says that they are members of a set."""

    event_shape = (4,)

    def forward(self, x: Any) -> Any:
        """A batch."""
        return x - 0.1 * x.mean(0, keepdim=True)


class Declared(Unmarked):
    """It says so."""

    promises = ("set",)


class Leading:
    """A normal density whose numbers have an axis of one in front."""

    event_shape = (3,)

    def log_prob(self, x: Any) -> Any:
        """Of points, ``(1, B)``."""
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)[None]

    def sample(self, n: int) -> Any:
        """So many points."""
        return torch.randn(n, 3)


class Squeezed:
    """A normal density of numpy that gives one point, and its number, without an axis; ``scale``: of its samples."""

    event_shape = (2,)

    def __init__(self, scale: float = 1.0) -> None:
        self.loc, self.scale = np.array([0.5, -1.0]), scale

    def log_prob(self, x: Any) -> Any:
        """Of points."""
        return np.squeeze((-0.5 * (x - self.loc) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1))[()]

    def sample(self, n: int) -> Any:
        """So many points."""
        return np.squeeze(self.loc + self.scale * np.random.standard_normal((n, 2)))


class SqueezedInTorch(Leading):
    """In torch that is a bug."""

    def log_prob(self, x: Any) -> Any:
        """Of points."""
        return super().log_prob(x).squeeze()


class Logit(nn.Module):
    """A map whose inverse is another module."""

    event_shape, domain = (2,), "unit"

    def forward(self, x: Any) -> Any:
        """Points of the unit interval, and the log-det."""
        return torch.logit(x), -(x.log() + (-x).log1p()).sum(-1)


class Sigmoid(nn.Module):
    """It; ``factor``: one that should be one."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, z: Any) -> Any:
        """The way back, and its log-det."""
        log_det = nn.functional.logsigmoid(z) + nn.functional.logsigmoid(-z)
        return torch.sigmoid(z) * self.factor, log_det.sum(-1)


def functions(wrong: float = 0.0) -> Any:
    """A pair of functions of numpy, of which the second takes arrays alone."""

    def there(x: Any) -> Any:
        y = np.sinh(x)
        return y, 0.5 * np.log1p(y**2).sum(-1)

    def back(z: Any) -> Any:
        z = z.copy()
        return np.arcsinh(z) + wrong, -0.5 * np.log1p(z**2).sum(-1)

    return there, back


def seeded() -> torch.Generator:
    """A generator of torch."""
    return torch.Generator().manual_seed(17)


Build = Callable[[], Any]
GLOBAL: Any = np.random.mtrand._rand  # what `np.random.seed` seeds
ROWS: list[tuple[str, Build, str, Status]] = [
    (f"{name}, {law}", build, law, Status.HOLDS)
    for name, build in {
        "a generator of torch": lambda: OwnGenerator(seeded()),
        "a generator of numpy": lambda: OwnGenerator(np.random.default_rng(3)),
        "numpy's global one": lambda: OwnGenerator(GLOBAL),
    }.items()
    for law in ("same/history[other-calls]", "same/copied", "sampling/follows-density[balance]")
] + [
    ("points dithered", lambda: OwnGenerator(seeded(), 0.02), "same/history[repeat]", Status.VIOLATED),
    ("deviations", BatchRenorm, "batch-norm/statistics[running-average]", Status.HOLDS),
    ("faster deviations", lambda: BatchRenorm(1.5), "batch-norm/statistics[running-average]", Status.VIOLATED),
    ("nodes of a graph", PairNorm, "same/rows", Status.HOLDS),
    ("the first node stays", lambda: PairNorm(True), "same/rows", Status.VIOLATED),
    ("a learned share of the mean", GraphNorm, "same/rows", Status.HOLDS),
    ("no batch norm once moved", GraphNorm, "batch-norm/train-map", Status.NOT_APPLICABLE),
    ("before its activation", NormAct, "batch-norm/train-map[reference]", Status.HOLDS),
    ("a bug before that", lambda: NormAct(True), "batch-norm/train-map[reference]", Status.VIOLATED),
    ("called once before", Standardize, "map/inverse", Status.HOLDS),
    ("a mean that is lost", lambda: Standardize(True), "map/inverse", Status.VIOLATED),
    ("an axis of one in front", Leading, "shape/one-number-per-point[log-prob]", Status.HOLDS),
    ("one number of one point", Squeezed, "shape/one-number-per-point[log-prob]", Status.HOLDS),
    ("one point without an axis", Squeezed, "shape/one-number-per-point[samples]", Status.HOLDS),
    ("too wide", lambda: Squeezed(1.3), "sampling/follows-density[balance]", Status.VIOLATED),
    ("squeezed in torch", SqueezedInTorch, "shape/one-number-per-point[log-prob]", Status.VIOLATED),
    ("functions of numpy", lambda: functions(), "map/inverse", Status.HOLDS),
    ("a way back that is off", lambda: functions(1e-3), "map/inverse", Status.VIOLATED),
    ("two modules", lambda: (Logit(), Sigmoid()), "map/inverse", Status.HOLDS),
    ("another way back", lambda: (Logit(), Sigmoid(1 - 1e-6)), "map/inverse", Status.VIOLATED),
    ("rows of a batch", Unmarked, "same/rows", Status.VIOLATED),
    ("members of a set", Declared, "same/rows", Status.HOLDS),
    ("a tuple without a length", Labelled, "map/log-det", Status.HOLDS),
    ("a bug beside one", lambda: Labelled(0.1), "map/log-det", Status.VIOLATED),
    ("infinite bounds", Bounded, "state/trains", Status.HOLDS),
    ("made infinite", lambda: Bounded(True), "state/trains", Status.VIOLATED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "status"), [("Sigmoid", Status.HOLDS), ("Sigmoid?factor=0.9", Status.VIOLATED)]
)
def test_an_option_names_another_object_for_the_inverse(name: str, status: Status) -> None:
    """By a spec of its own, which may have options."""
    target = parse_target(f"{__file__}:Logit").with_options(inverse=f"{__file__}:{name}")
    assert pair_verdict(target, "map/inverse").status is status


@pytest.mark.parametrize(
    ("build", "law", "status"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_kinds_unlike_flows(build: Build, law: str, status: Status) -> None:
    """What a kind does by definition is no violation, and what it does wrong beside that is one."""
    verdict = pair_verdict(snapshot(build), law)
    assert verdict.status is status, verdict.reason
