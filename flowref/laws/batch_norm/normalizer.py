"""A batch normalizer as its laws see it: batches for it, what it returns, and its numbers, measured
where no attribute tells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import largest, per_channel, single, wide
from flowref.model import Array, Shape, Unsupported
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.call import How
from flowref.model.steps import Eval, ModeChange, Normalize, Pulled, Roles, Run, Step, Train

MODES: Mapping[str, Step[ModeChange]] = {"train": Train(), "eval": Eval()}
STATISTICS = ("running_mean", "running_var")
# So few rows are asked for by laws of small batches.
FEW = 3
# Batches that measure what is not known: spread so wide that eps does not count, and so narrow that
# nothing else does.
WIDE_SPREAD, NARROW_SPREAD = 1e3, 1e-7


def channels(flow: Flow) -> int:
    """The number of channels: the first axis of an event."""
    return int(flow.event_shape[0])


def random_batch(flow: Flow, rng: np.random.Generator, rows: int = 0, event: Shape = ()) -> Array:
    """A batch whose channels differ in spread, offset (a few times the spread) and shape of
    distribution. ``event``: the shape of its events, where it is another one.
    """
    shape = (undivided(flow, rows or int(rng.integers(5, 12))), *(event or flow.event_shape))
    spread = 10.0 ** rng.uniform(-2.5, 1.5, channels(flow))
    offset = spread * rng.choice((0.0, 1.0, -3.0, 10.0), channels(flow))
    z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1.0, shape))
    return single(wide(offset, z) + wide(spread, z) * z)


def normal_batch(flow: Flow, rng: np.random.Generator, rows: int) -> Array:
    """A batch of standard normal values, of as many rows as are one part of what divides batches."""
    return large_batch(flow, rng, undivided(flow, rows))


def large_batch(flow: Flow, rng: np.random.Generator, rows: int) -> Array:
    """The same of as many rows as are asked for."""
    return single(rng.standard_normal((rows, *flow.event_shape)))


def undivided(flow: Flow, rows: int) -> int:
    """As many rows, or those of one part of what normalizes parts of a batch, which may refuse fewer."""
    normalizer = flow.facts.normalizer
    return normalizer.largest if normalizer and rows > FEW and normalizer.largest else rows


def output(flow: BatchNormal, x: Array, *before: Step[Any], how: How = "plain") -> Array:
    """What the normalizing call returns for a batch, after other steps."""
    normalize = Normalize(x, how)
    return flow.play([*before, normalize]).of(normalize)


def input_gradient(pulled: Pulled, x: Array) -> Array:
    """The gradient with respect to a batch; zeros where none reaches it."""
    return np.zeros_like(x) if pulled.x is None else np.asarray(pulled.x, dtype=np.float64)


class Running(NamedTuple):
    """Running statistics, `(channels,)` each."""

    mean: Array
    var: Array


class Parameters(NamedTuple):
    """The numbers of a batch normalizer, `(channels,)` or single; None for a role that nothing
    plays.
    """

    channels: int
    weight: Array | None
    bias: Array | None
    running_mean: Array | None
    running_var: Array | None
    num_batches: float | None
    eps: float | None
    momentum: float | None

    @classmethod
    def of(cls, flow: BatchNormal, roles: Mapping[str, Any] | None = None) -> Parameters:
        """From the outcome of a step `Roles` in some life, or of one played now."""
        if roles is None:
            step = Roles()
            roles = flow.play([step]).of(step)
        weight, bias, mean, var = (
            None if (tensor := roles.get(role)) is None else _flat(tensor)
            for role in ("weight", "bias", *STATISTICS)
        )
        num_batches, eps, momentum = (
            None
            if (number := roles.get(role)) is None
            else float(np.asarray(number).reshape(-1)[0])
            for role in ("num_batches", "eps", "momentum")
        )
        return cls(channels(flow), weight, bias, mean, var, num_batches, eps, momentum)

    @property
    def scale(self) -> Array:
        """The weight of each channel, ones where there is none."""
        return np.ones(self.channels) if self.weight is None else self.weight

    @property
    def shift(self) -> Array:
        """The bias of each channel, zeros where there is none."""
        return np.zeros(self.channels) if self.bias is None else self.bias

    @property
    def statistics(self) -> dict[str, Array]:
        """The running statistics that are kept, by role."""
        kept = zip(STATISTICS, (self.running_mean, self.running_var), strict=True)
        return {role: values for role, values in kept if values is not None}

    @property
    def running(self) -> Running:
        """Both running statistics; `Unsupported` where one is not kept."""
        if self.running_mean is None or self.running_var is None:
            raise Unsupported("it keeps no running statistics under a known name")
        return Running(self.running_mean, self.running_var)

    def affine(self, hat: Array) -> Array:
        r"""$w \hat x + b$ of a standardized batch."""
        return np.asarray(wide(self.scale, hat) * hat + wide(self.shift, hat))

    def magnitude(self, hat: Array) -> Array:
        """The size of the terms of that, with those of the standardization, per channel."""
        return np.asarray(np.abs(self.scale) * (1 + largest(hat)) + np.abs(self.shift))


def _flat(tensor: Any) -> Array:
    return np.asarray(tensor, dtype=np.float64).reshape(-1)


def epsilon(flow: BatchNormal, parameters: Parameters) -> float:
    r"""The $\epsilon$ of a normalizer; where it is no attribute, that with which a batch of tiny
    spread is normalized.

    Two values $\pm d$ give $\hat x = d / \sqrt{d^2 + \epsilon}$. Rounded to three digits, so that
    it is a constant.
    """
    if parameters.eps is not None:
        return parameters.eps
    x = np.stack([np.full(flow.event_shape, sign * NARROW_SPREAD) for sign in (1.0, -1.0)])
    y = per_channel(output(flow, x, Train()))
    weight, bias = parameters.scale, parameters.shift
    channel = int(np.abs(weight).argmax())
    with np.errstate(all="ignore"):
        hat = float(((y[channel, 0] - bias[channel]) / weight[channel]).astype(np.float64))
        eps = (NARROW_SPREAD / hat) ** 2 - NARROW_SPREAD**2
    if not np.isfinite(eps):
        raise Unsupported("its eps is not known")
    return 0.0 if eps < 1e-2 * NARROW_SPREAD**2 else float(f"{eps:.3g}")


def freedom(flow: BatchNormal, parameters: Parameters) -> int:
    """Whether normalization may divide by n - 1 instead of n, 1 or 0: where that is declared, and
    in a flow layer that does.

    A flow layer claims a map with its log-det, of which any variance makes one; that it is not the
    paper's is advice.
    """
    if flow.normalizer.declared.get("variance") == "unbiased":
        return 1
    return measured_freedom(flow, parameters) if is_flow(flow) else 0


def is_flow(flow: BatchNormal) -> bool:
    """Whether a normalizer is a layer of a flow, which has an inverse or returns a log-det."""
    if "inverse" in flow.calls:
        return True
    run = Run(flow.normalizer.call, np.zeros((2, *flow.event_shape)))
    return flow.play([Eval(), run]).of(run).ladj is not None


def measured_freedom(flow: BatchNormal, parameters: Parameters) -> int:
    """Whether a batch is in fact normalized with n - 1 instead of n, for laws that hold of
    either.
    """
    x = np.stack([np.full(flow.event_shape, sign * WIDE_SPREAD) for sign in (1.0, -1.0)])
    y = per_channel(output(flow, x, Train()))
    values, weight = y.shape[1], parameters.scale
    channel = int(np.abs(weight).argmax())
    size = float(np.abs(y[channel] - parameters.shift[channel]).mean() / abs(weight[channel]))
    return int(abs(size - np.sqrt((values - 1) / values)) < abs(size - 1))
