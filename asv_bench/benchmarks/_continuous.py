r"""Continuous flows of the reference and of the libraries that have them, along one field: a network with
tanh that sees the time beside the state, with the exact divergence.

Each takes its own adaptive solver with its own knob. What these knobs mean
differs, so that each is turned until log-densities are as exact as is asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ._models import data
from ._peers import Model
from ._sizes import VECTORS, Architecture

# The knobs that are tried, loose ones first, and that of what all are compared with.
TOLERANCES = tuple(10 ** (-half / 2) for half in range(2, 25))
EXACT = 1e-12
# How exact a log-density has to be where times are compared: what training and reports need.
ACCURACY = 1e-3
# The rows that tell how exact a flow is.
ROWS = 16
# What weights are multiplied by beyond their initialization, so that the field bends.
STEEP = 2.0


class Field(nn.Module):
    """Velocities `(N, D)` of states `(N, D)` at a time; ``calls`` counts them, ``derived`` those with
    gradients by the state, which divergences are made of.
    """

    def __init__(self, features: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3000)
            first, second, last = (
                nn.Linear(before, after)
                for before, after in zip((features + 1, *hidden), (*hidden, features), strict=True)
            )
        self.net = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)
        with torch.no_grad():
            for values in self.parameters():
                values.mul_(STEEP)
        self.calls = self.derived = 0

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The velocity of each row."""
        self.calls += 1
        self.derived += x.requires_grad
        velocity: Tensor = self.net(torch.cat((x, t.to(x).expand(*x.shape[:-1], 1)), -1))
        return velocity


@dataclass(frozen=True)
class Continuous:
    """A flow along a field with a tolerance: ``model``, and the field that it calls."""

    model: Model
    field: Field


Builder = Callable[[Architecture, float], Continuous]


def reference_cnf(architecture: Architecture, tolerance: float) -> Continuous:
    """Steps by Dormand and Prince, and divergences at nodes of their own along the path."""
    from flowref import reference as ref

    field = Field(architecture.event[0], architecture.hidden)
    flow = ref.Flow(
        ref.StandardNormal(architecture.event), ref.CNF(field, tolerance=tolerance, most=2**15)
    )
    return Continuous(Model(flow, flow.log_prob, flow.sample), field)


def zuko_cnf(architecture: Architecture, tolerance: float) -> Continuous:
    """Its transform by Dormand and Prince, with gradients by its adjoint."""
    import zuko

    field = Field(architecture.event[0], architecture.hidden)

    def flow() -> Any:
        transform = zuko.transforms.FreeFormJacobianTransform(
            field, phi=tuple(field.parameters()), atol=tolerance, rtol=tolerance
        )
        one = next(field.parameters())
        zeros = one.new_zeros(architecture.event)
        base = zuko.distributions.DiagNormal(zeros, zeros + 1)
        return zuko.distributions.NormalizingFlow(transform, base)

    def log_prob(x: Tensor) -> Tensor:
        values: Tensor = flow().log_prob(x)
        return values

    return Continuous(Model(field, log_prob, lambda n: flow().sample((n,))), field)


def torchflows_cnf(architecture: Architecture, tolerance: float) -> Continuous:
    r"""Its bijection by torchdiffeq's Dormand and Prince. Its divergence is an average over vectors of
    noise, here $\sqrt D\,e_i$, which make it exact; it has no graph, so that a training step is one of
    a loss without it.
    """
    from torchflows.bijections.continuous.base import (
        ContinuousBijection,
        HutchinsonTimeDerivative,
    )

    (features,) = architecture.event
    field = Field(features, architecture.hidden)

    class Units(HutchinsonTimeDerivative):  # type: ignore[misc]  # torchflows is untyped
        def step(self, t: Tensor, x: Tensor, *rest: Any) -> Any:
            units = math.sqrt(features) * torch.eye(features, dtype=x.dtype, device=x.device)
            self._reusable_noise = units[:, None].expand(features, *x.shape)
            return super().step(t, x, *rest)

    rate = Units(field, n_noise_samples=features, reuse_noise=True)
    bijection: Any = ContinuousBijection(
        architecture.event, rate, solver="dopri5", atol=tolerance, rtol=tolerance
    )

    def moved(x: Tensor, times: tuple[float, float]) -> tuple[Tensor, Tensor]:
        # Its `inverse` goes along the times as they are given.
        found: tuple[Tensor, Tensor] = bijection.inverse(x, integration_times=x.new_tensor(times))
        return found

    def log_prob(x: Tensor) -> Tensor:
        z, ladj = moved(x, (0.0, 1.0))
        return ladj - 0.5 * z.square().sum(1) - 0.5 * features * math.log(2 * math.pi)

    def sample(n: int) -> Tensor:
        one = next(field.parameters())
        return moved(one.new_empty(n, features).normal_(), (1.0, 0.0))[0]

    return Continuous(Model(bijection, log_prob, sample), field)


CONTINUOUS: Mapping[str, Builder] = {
    "flowref": reference_cnf,
    "zuko": zuko_cnf,
    "torchflows": torchflows_cnf,
}


@functools.cache
def exact(size: str, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """A batch in double precision, and log-densities that are exact beside all accuracies asked for."""
    architecture = VECTORS[size]
    x = data((rows, *architecture.event)).double()
    built = reference_cnf(architecture, EXACT)
    built.model.module.double()
    with torch.no_grad():
        return x, built.model.log_prob(x)


def measured(impl: str, size: str, tolerance: float, rows: int = ROWS) -> tuple[float, Field]:
    """By how many nats a log-density of a batch is off at most, and the field that was called for it."""
    x, expected = exact(size, rows)
    built = CONTINUOUS[impl](VECTORS[size], tolerance)
    built.model.module.double()
    with torch.no_grad():
        found = built.model.log_prob(x).detach()
    return float((found - expected).abs().max()), built.field


@functools.cache
def knob(impl: str, size: str, accuracy: float) -> tuple[float, int]:
    """The loosest tolerance that gives all log-densities of a batch so exactly, in nats, and how often
    it evaluates the field, in double precision.
    """
    for tolerance in TOLERANCES:
        error, field = measured(impl, size, tolerance)
        if error <= accuracy:
            return tolerance, field.calls
    raise AssertionError(f"no tolerance gives {impl} an accuracy of {accuracy:g}")


def continuous(impl: str, size: str) -> Model:
    """A flow in single precision, as exact as `ACCURACY`."""
    tolerance, _ = knob(impl, size, ACCURACY)
    return CONTINUOUS[impl](VECTORS[size], tolerance).model
