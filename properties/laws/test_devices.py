"""Objects that are moved to a device: what is left behind is found where it does harm, and nowhere else."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.distributions import (
    Independent,
    MultivariateNormal,
    Normal,
    TransformedDistribution,
    transforms,
)

from flowref import check, registry
from flowref.checking import Settings
from flowref.cli.main import main
from flowref.model import Status
from laws.device_failures import CONSTRUCTIONS, CORRECTED, MEASURED
from rows import one_of_each

QUICK = Settings("quick")
DEVICE, AFTER_USE = "dtype/follows[device]", "dtype/follows[device-after-use]"
UNMENTIONED = "dtype/follows[unmentioned-device]"


class Shift(nn.Module):
    """z = x + b for each of three features, on any device."""

    event_shape = (3,)
    base: Any
    mask: Any

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))
        self.register_buffer("base", torch.eye(3))
        self.prepare()

    def prepare(self) -> None:
        """Whatever else it holds."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.moved(x), x.new_zeros(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z - self.b, z.new_zeros(len(z))

    def prior(self) -> Any:
        """Of the latents."""
        return MultivariateNormal(self.base[0] * 0, self.base)

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z, ladj = self(x)
        return self.prior().log_prob(z) + ladj

    def sample(self, n: int) -> Any:
        """Draws."""
        return self.inverse(self.prior().sample((n,)))[0]


class MaskAttribute(Shift):
    """A mask is a plain attribute."""

    def prepare(self) -> None:
        """Of tensors."""
        self.mask = torch.ones(3)

    def moved(self, x: Any) -> Any:
        """Masked."""
        return (x + self.b) * self.mask


class MaskBuffer(MaskAttribute):
    """A mask is a buffer."""

    def prepare(self) -> None:
        """Registered."""
        self.register_buffer("mask", torch.ones(3))


class MaskInAList(MaskAttribute):
    """Masks are in a list."""

    def prepare(self) -> None:
        """Of tensors."""
        self.masks = [torch.ones(3)]

    def moved(self, x: Any) -> Any:
        """Masked."""
        return (x + self.b) * self.masks[0]


class ParametersInAList(Shift):
    """Parameters are registered, and in a list as well."""

    def prepare(self) -> None:
        """Of the very same."""
        self.layers = [self.b]

    def moved(self, x: Any) -> Any:
        """By the list."""
        return x + self.layers[0]


class Arange(Shift):
    """Indices are made without a device, and multiplied."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b + 0 * torch.arange(3)


class ArangeAsIndex(Shift):
    """Indices may lie on the CPU."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x[:, torch.arange(3)] + self.b


class ZerosInForward(Shift):
    """A log-det is made without a device."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.moved(x), torch.zeros(len(x), dtype=x.dtype)


class ZerosInSample(Shift):
    """Latents are drawn without a device."""

    def sample(self, n: int) -> Any:
        """Draws."""
        return self.inverse(torch.randn(n, 3, dtype=self.b.dtype))[0]


class SampleOnTheHost(Shift):
    """Draws come back on the CPU."""

    def sample(self, n: int) -> Any:
        """Draws."""
        return super().sample(n).cpu()


class ThroughNumpy(Shift):
    """The value is taken through numpy."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b + 0 * float(x.detach().numpy().sum())


class ThroughNumpyOfTheHost(Shift):
    """The value is taken through numpy, by way of the CPU."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b + 0 * float(x.detach().cpu().numpy().sum())


class BaseOfTensors(Shift):
    """A base distribution is built once."""

    def prepare(self) -> None:
        """Of plain tensors."""
        self.normal = Normal(torch.zeros(3), torch.ones(3))

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z, ladj = self(x)
        return self.normal.log_prob(z).sum(1) + ladj


class BaseOfNumbers(BaseOfTensors):
    """A base distribution is built once."""

    def prepare(self) -> None:
        """Of numbers, which go along with tensors of any device."""
        self.normal = Normal(0.0, 1.0)


class TrainLoss(Shift):
    """A gradient is written without a device."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return doubled(x) / 2 + self.b * torch.ones(3, device=self.b.device)


class Doubled(torch.autograd.Function):
    """2 x, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """The value."""
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The vector-Jacobian product."""
        return gradient @ (2 * torch.eye(3, dtype=gradient.dtype))


def doubled(x: Any) -> Any:
    """Typed."""
    return Doubled.apply(x)  # type: ignore[no-untyped-call]  # torch's method is untyped


class Backward(TrainLoss):
    """The gradient of the parameters as well."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + doubled(self.b[None])[0] / 2


class Numbers(Shift):
    """Tensors of no dimension and numbers of Python are constants."""

    def prepare(self) -> None:
        """On the CPU."""
        self.zero, self.half_log = torch.tensor(0.0), 0.5 * math.log(2 * math.pi)

    def moved(self, x: Any) -> Any:
        """The value."""
        where = torch.where(x > self.zero, x, x * torch.tensor(1.0))
        return where.clamp(min=torch.tensor(-100.0)) + self.b + 0 * self.half_log


class StackedNumbers(Numbers):
    """A tensor of no dimension is stacked with one of the device."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b + torch.stack([x.sum() * 0, self.zero]).sum()


class Left(Shift):
    """What stays behind is for reading alone."""

    def prepare(self) -> None:
        """A record of how it was built."""
        self.record = torch.ones(3)


class Cached(Shift):
    """The first call keeps what it computed."""

    def prepare(self) -> None:
        """Nothing yet."""
        self.kept: Any = None

    def moved(self, x: Any) -> Any:
        """The value."""
        if self.kept is None:
            self.kept = self.b.detach().clone()
        return x + self.kept


class CachedInEval(Cached):
    """The first call after training keeps what it computed."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b if self.training else super().moved(x)


class CachedByDevice(CachedInEval):
    """What was kept is computed anew elsewhere."""

    def moved(self, x: Any) -> Any:
        """The value."""
        if self.kept is not None and self.kept.device != x.device:
            self.kept = None
        return super().moved(x)


class OwnTo(MaskAttribute):
    """It moves its mask itself."""

    def _apply(self, fn: Any, *args: Any) -> Any:
        self.mask = fn(self.mask)
        return super()._apply(fn, *args)  # type: ignore[no-untyped-call]  # torch's method is untyped


class BoundByName(MaskAttribute):
    """It says on which device it is."""

    def prepare(self) -> None:
        """By name."""
        self.device = torch.device("cpu")
        self.mask = torch.ones(3, device=self.device)


class Vmapped(Shift):
    """Each point is mapped alone, and its slopes are those of autograd."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        slopes = torch.func.vmap(torch.func.jacrev(self.moved))(x)
        return torch.func.vmap(self.moved)(x), torch.linalg.slogdet(slopes)[1]


class Tied(Shift):
    """Weights are of a norm and a direction, as torch has them."""

    def prepare(self) -> None:
        """A layer of torch."""
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b + 0 * self.layer(self.b)


class Scale(nn.Module):
    """z = b x, in code that names none."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.tensor([0.5, 2.0, 1.5]))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x * self.b, self.b.log().sum() + torch.zeros(len(x), dtype=x.dtype)


WRONG = (MaskAttribute, MaskInAList, Arange, ZerosInForward, ZerosInSample, SampleOnTheHost, ThroughNumpy,
         BaseOfTensors, Backward, StackedNumbers, Cached)  # fmt: skip
RIGHT = (Shift, MaskBuffer, ParametersInAList, ArangeAsIndex, ThroughNumpyOfTheHost, BaseOfNumbers, TrainLoss,
         Numbers, Left, CachedInEval, CachedByDevice, OwnTo, Vmapped, Tied)  # fmt: skip


@pytest.mark.parametrize(
    ("law", "status"), [(DEVICE, Status.NOT_APPLICABLE), (UNMENTIONED, Status.ADVICE)]
)
def test_code_that_names_no_device_is_advised(law: str, status: Status) -> None:
    """It is right where it was meant to run."""
    assert check(Scale(), law, QUICK).status is status


class Stepwise(Scale):
    """Noise is made on the CPU in one line, and used in another."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise = torch.randn(3, dtype=x.dtype)  # made
        noise = noise * 0.0
        return x * self.b + noise, self.b.log().sum().expand(len(x))


class Kept(Scale):
    """A tensor that was there before is used in a line."""

    def __init__(self) -> None:
        super().__init__()
        self.zeros = torch.zeros(3)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x * self.b + self.zeros, self.b.log().sum().expand(len(x))  # used


@pytest.mark.parametrize(
    ("kind", "law", "mark", "words"),
    [
        (Stepwise, UNMENTIONED, "# made", " makes a tensor on the CPU)"),
        (Kept, DEVICE, "# used", ")"),
    ],
)
def test_the_line_that_makes_a_tensor_on_the_cpu_is_named(
    kind: Any, law: str, mark: str, words: str
) -> None:
    """If the call makes it; otherwise the line that uses it."""
    lines, first = inspect.getsourcelines(kind)
    line = first + next(number for number, text in enumerate(lines) if mark in text)
    assert f"({Path(__file__).name}:{line}{words}" in check(kind(), law, QUICK).reason


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_gpu_refuses_is_found(kind: Any) -> None:
    """It raises there, or returns on the CPU."""
    assert check(kind(), DEVICE, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("kind", RIGHT)
def test_what_a_gpu_takes_holds(kind: Any) -> None:
    """Also where tensors stay behind that nothing uses, or that are numbers."""
    verdict = check(kind(), DEVICE, QUICK)
    assert verdict.status is Status.HOLDS, verdict.reason


@pytest.mark.parametrize(
    ("kind", "status"), [(CachedInEval, Status.VIOLATED), (CachedByDevice, Status.HOLDS)]
)
def test_what_a_call_leaves_behind_is_found(kind: Any, status: Status) -> None:
    """Where the next call on the device uses it."""
    assert check(kind(), AFTER_USE, QUICK).status is status


def transformed() -> Any:
    """A distribution of torch, whose tensors nobody moves."""
    base = Independent(Normal(torch.zeros(3), torch.ones(3)), 1)
    return TransformedDistribution(base, [transforms.ExpTransform()])


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (transformed, "no .to moves them"),
        (BoundByName, "bound to a device by name: its device is cpu"),
    ],
)
def test_what_nobody_can_move_is_not_judged(build: Any, reason: str) -> None:
    """In one sentence."""
    verdict = check(build(), DEVICE, QUICK)
    assert verdict.status is Status.NOT_APPLICABLE and reason in verdict.reason


def single(kind: Any) -> Any:
    """The same, for single precision alone."""

    class Single(kind):  # type: ignore[misc]  # a class by its value
        """It refuses another."""

        def forward(self, x: Any) -> Any:
            """Data to latents."""
            if x.dtype != torch.float32:
                raise TypeError("expected float32")
            return super().forward(x)

    return Single()


@pytest.mark.parametrize(
    ("kind", "status"), [(MaskAttribute, Status.VIOLATED), (MaskBuffer, Status.HOLDS)]
)
def test_single_precision_is_moved_as_well(kind: Any, status: Status) -> None:
    """Of an object that takes no other."""
    verdict = check(single(kind), DEVICE, QUICK)
    assert verdict.status is status
    assert verdict.counterexample is None or verdict.counterexample.condition.dtype == "float32"


@pytest.mark.parametrize("command", ["audit", "check"])
@pytest.mark.parametrize("device", ["cuda:77", "nonsense"])
def test_a_device_that_is_not_there_is_one_sentence(command: str, device: str) -> None:
    """And exit code 2."""
    done = CliRunner().invoke(main, [command, "torch:ExpTransform", "--device", device])
    assert done.exit_code == 2 and f"there is no device '{device}' here: " in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("law", [DEVICE, AFTER_USE, "same/manner[device]"])
def test_a_device_that_is_named_is_where_calls_are_made(law: str) -> None:
    """The CPU is one, on which nothing is elsewhere."""
    assert check(MaskAttribute(), law, replace(QUICK, device="cpu")).status is Status.HOLDS


class OtherOnAGpu(Shift):
    """A branch for GPUs is off."""

    def moved(self, x: Any) -> Any:
        """The value."""
        return x + self.b * (1.01 if x.is_cuda else 1.0)


@pytest.mark.parametrize(
    ("kind", "status"), [(OtherOnAGpu, Status.VIOLATED), (Vmapped, Status.HOLDS)]
)
def test_what_is_computed_elsewhere_is_compared(kind: Any, status: Status) -> None:
    """With what the CPU gives."""
    assert check(kind(), "same/manner[device]", QUICK).status is status


HEALTHY = (
    "torch:distributions.Normal", "nflows:LULinear", "nflows:PiecewiseRationalQuadraticCDF", "normflows:AffineCouplingBlock[exp]",
    "zuko:NSF", "FrEIA:GLOWCouplingBlock", "pyro:Planar", "glasflow:nflows.LULinear[cache]", CORRECTED,
    "torchflows:arch.RealNVP",
)  # fmt: skip


@pytest.mark.parametrize(
    "spec", one_of_each(MEASURED, lambda spec: (spec.partition(":")[0], MEASURED[spec]))
)
def test_constructions_that_a_gpu_refused_are_found(spec: str) -> None:
    """By the calls that it refused."""
    verdict = check(spec, DEVICE, QUICK)
    assert verdict.status is Status.VIOLATED
    assert any(call in verdict.reason for call in MEASURED[spec])


@pytest.mark.parametrize("spec", HEALTHY)
def test_constructions_that_ran_on_a_gpu_are_not(spec: str) -> None:
    """Nor ours, which is corrected."""
    assert check(spec, DEVICE, QUICK).status is not Status.VIOLATED


@pytest.mark.deep
@pytest.mark.parametrize("library", CONSTRUCTIONS)
def test_all_constructions_are_judged_as_by_a_gpu(library: str) -> None:
    """All of which it refused calls are found, and no others."""
    specs = {str(target) for target in registry.expand(library)}
    violated = {spec for spec in specs if check(spec, DEVICE, QUICK).status is Status.VIOLATED}
    assert violated == set(MEASURED) & specs
