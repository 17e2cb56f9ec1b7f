r"""The formula of batch normalization, and its numbers in a normalizer.

$$y = w\,(x - \mu) / \sqrt{v + \epsilon} + b$$

This holds for each channel. The numbers are known in two ways: by the names of attributes
(`Parameters`), and by calls only, whatever the attributes are called: a channel of a batch is
mapped by a line $y = a x + l$ (`ChannelLineFit`), and lines at batches of huge and of tiny spread
give w, b, $\epsilon$ and n - ``freedom`` in the variance (`Scale`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    broadcast_channels,
    channel_gap,
    channel_moments,
    largest_per_channel,
    per_channel,
    ratio,
    standardized,
)
from flowref.laws.batch_norm.normalizer import normal_batch, number_of_channels, output, settable
from flowref.laws.common.outcomes import attempt
from flowref.model import Array, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Run, Step, Train
from flowref.model.structure.line_fits import NARROW, WIDE, Scale, fit_lines, measure_constants

STATISTICS, SINGLE = ("running_mean", "running_var"), ("num_batches", "eps", "momentum")
# Two spreads measure the unknown constants: one so large that eps is negligible, one so small that
# only eps matters.
FAR, NEAR = 1e3, 1e-7
# Rows of the batches of huge and tiny spread.
ROWS = 16
# A measured constant this close to one of three digits is that one.
FEW_DIGITS = 1e-5
# Relative agreement of measured weight and bias with others, up to conventions of the variance.
ALIKE = 0.05


class Running(NamedTuple):
    """Mean and variance of each channel, ``(channels,)``, running or of a batch."""

    mean: Array
    var: Array

    def toward(self, mean: Array, var: Array, share: float) -> Running:
        r"""The update of running statistics, $r \leftarrow (1 - f)\,r + f\,s$ with f = ``share``."""
        return Running((1 - share) * self.mean + share * mean, (1 - share) * self.var + share * var)

    def off(self, expected: Running, of_mean: Array, of_var: Array) -> Array:
        """The deviation of both from ``expected``, relative to sizes, ``(2, channels)``."""
        return np.stack(
            [
                ratio(np.abs(self.mean - expected.mean), of_mean),
                ratio(np.abs(self.var - expected.var), of_var),
            ]
        )


@dataclass(frozen=True)
class Parameters:
    """The numbers of a batch normalizer by their names, ``(channels,)`` or scalar; None for a
    missing role.
    """

    flow: BatchNormal
    weight: Array | None
    bias: Array | None
    running_mean: Array | None
    running_var: Array | None
    num_batches: float | None
    eps: float | None
    momentum: float | None

    @classmethod
    def of(cls, flow: BatchNormal, roles: Mapping[str, Any] | None = None) -> Parameters:
        """From the outcome of a step `Roles` in a history, or of a new one."""
        tensors = flow.play([Roles()])[0] if roles is None else roles
        arrays: dict[str, Any] = {
            role: None
            if tensors.get(role) is None
            else np.asarray(tensors[role], dtype=np.float64).reshape(-1)
            for role in ("weight", "bias", *STATISTICS, *SINGLE)
        }
        single: dict[str, Any] = {
            role: None if arrays[role] is None else float(arrays[role][0]) for role in SINGLE
        }
        return cls(flow, **(arrays | single))

    @property
    def scale(self) -> Array:
        """The weight of each channel, ``(channels,)``; ones if there is none."""
        return np.ones(number_of_channels(self.flow)) if self.weight is None else self.weight

    @property
    def shift(self) -> Array:
        """The bias of each channel, ``(channels,)``; zeros if there is none."""
        return np.zeros(number_of_channels(self.flow)) if self.bias is None else self.bias

    @property
    def statistics(self) -> dict[str, Array]:
        """The running statistics that exist, by role."""
        kept = zip(STATISTICS, (self.running_mean, self.running_var), strict=True)
        return {role: values for role, values in kept if values is not None}

    @property
    def running(self) -> Running:
        """Both running statistics. Raises `Unsupported` if one is missing."""
        if self.running_mean is None or self.running_var is None:
            raise Unsupported("it keeps no running statistics under a known name")
        return Running(self.running_mean, self.running_var)

    def hat(self, x: Array, mean: Array, var: Array) -> Array:
        r"""$\hat x = (x - \mu) / \sqrt{v + \epsilon}$."""
        return standardized(x, mean, var, self.epsilon)

    def affine(self, hat: Array) -> Array:
        r"""$w \hat x + b$ of a standardized batch."""
        return np.asarray(
            broadcast_channels(self.scale, hat) * hat + broadcast_channels(self.shift, hat)
        )

    def magnitude(self, hat: Array) -> Array:
        r"""The size of the terms of $w \hat x + b$ and of the standardization, ``(channels,)``."""
        return np.asarray(np.abs(self.scale) * (1 + largest_per_channel(hat)) + np.abs(self.shift))

    def off(self, y: Array, x: Array, mean: Array, var: Array) -> Array:
        """The deviation of an output from the formula with a mean and a variance, relative to the
        size of its terms, ``(channels,)``.
        """
        hat = self.hat(x, mean, var)
        return channel_gap(y, self.affine(hat), self.magnitude(hat))

    @cached_property
    def measured(self) -> Scale:
        """Weight, bias, eps and freedom as measured by calls in train mode."""
        return scale_of(self.flow)

    @property
    def epsilon(self) -> float:
        r"""The $\epsilon$ of the normalizer; without an attribute, as measured with a batch of
        tiny spread.
        """
        return self.measured.eps if self.eps is None else self.eps

    @property
    def measured_freedom(self) -> int:
        """1 if a batch is normalized with n - 1, 0 with n, for laws that hold for either."""
        return self.measured.freedom

    @property
    def freedom(self) -> int:
        """The same if permitted: if it is declared, and in a flow layer. A flow layer is a map
        with its log-det for any variance; that it is not the paper's is advice.
        """
        if self.flow.normalizer.declared.get("variance") == "unbiased":
            return 1
        return self.measured_freedom if is_flow(self.flow) else 0


def is_flow(flow: BatchNormal) -> bool:
    """Whether a normalizer is a layer of a flow, with an inverse or a log-det."""
    if "inverse" in flow.calls:
        return True
    run = Run(flow.normalizer.call, np.zeros((2, *flow.event_shape)))
    return flow.play([Eval(), run]).of(run).ladj is not None


class ChannelLineFit(NamedTuple):
    """Slope and level of the line of each channel, and the residual of the fit, absolute and
    relative to the size of its terms, ``(channels,)`` each.
    """

    slope: Array
    level: Array
    off: Array
    relative: Array


def fit_channel_line(x: Array, y: Array) -> ChannelLineFit:
    """The least-squares line of each channel. Raises `Unsupported` if the output has another
    shape.
    """
    found = fit_lines(per_channel(x), per_channel(shaped(y, x)))
    size = np.abs(found.slope) * largest_per_channel(x) + np.abs(found.level)
    with np.errstate(all="ignore"):
        return ChannelLineFit(*found, ratio(found.off, size))


def shaped(y: Array, x: Array) -> Array:
    """The output as an array. Raises `Unsupported` if it has another shape than the input."""
    if np.shape(y) != np.shape(x):
        raise Unsupported(f"its output has shape {np.shape(y)}, where its input has {np.shape(x)}")
    return np.asarray(y, dtype=np.float64)


def scale_of(flow: BatchNormal) -> Scale:
    """Measured in train mode, on batches of huge and of tiny spread."""
    z = normal_batch(flow, np.random.default_rng(5), ROWS)
    found = measure_constants(lambda x: shaped(output(flow, x, Train()), x), z)
    eps = constant(found.eps)
    with np.errstate(all="ignore"):
        weight = found.weight * np.sqrt(1 + eps / channel_moments(WIDE * z, found.freedom)[1])
    return found._replace(weight=weight, eps=eps)


def constant(measured: float, least: float = 1e-2 * NARROW**2) -> float:
    """A constant rounded to three digits if it has few; zero if it is negligible for the narrowest
    batch.
    """
    if not np.isfinite(measured):
        raise Unsupported("its eps has no effect, since it returns a constant")
    if abs(measured) <= least:
        return 0.0
    written = float(f"{measured:.3g}")
    return written if abs(written - measured) <= FEW_DIGITS * abs(measured) else measured


class Affine(NamedTuple):
    """Weight and bias, ``(channels,)`` each."""

    weight: Array
    bias: Array

    def like(self, other: Affine) -> bool:
        """Whether two agree up to conventions of the variance."""
        size = ALIKE * (0.05 + np.abs(other.weight))
        return all(bool((np.abs(a - b) <= size).all()) for a, b in zip(self, other, strict=True))


def apparent(flow: BatchNormal, weight: float, bias: float) -> list[Affine] | None:
    """Weight and bias as attributes, and as measured from the output in train mode and, with
    statistics, in eval mode, after they were set, if possible, to values rising from these over
    the channels. None if a call raises.
    """
    x = normal_batch(flow, np.random.default_rng(1), 64)
    begin: list[Step[Any]] = []
    for role, start in (("weight", weight), ("bias", bias)):
        assign = Assign(role, start + 1.3 * np.arange(number_of_channels(flow)))
        if role in flow.normalizer.roles and settable(flow, assign):
            begin.append(assign)
    begin.append(Roles())
    trained, error = attempt(flow.play, [*begin, Train(), Normalize(FAR * x), Roles()])
    if error:
        return None
    *_, y, after = trained
    parameters = Parameters.of(flow, trained[len(begin) - 1])
    mean, var = channel_moments(FAR * x)
    averages = Parameters.of(flow, after)
    if flow.normalizer.statistics == "running" and len(averages.statistics) == 2:
        mean, var = averages.running
    found = [Affine(parameters.scale, parameters.shift), affine_of(FAR * x, y, mean, np.abs(var))]
    if len(parameters.statistics) == 2:
        evaluated, error = attempt(flow.play, [*begin, Eval(), Normalize(x)])
        if error:
            return None
        mean, var = parameters.running
        found.append(affine_of(x, evaluated[-1], mean, np.abs(var) + (parameters.eps or 0.0)))
    return found


def affine_of(x: Array, y: Array, mean: Array, inside: Array) -> Affine:
    """Weight and bias of the line of each channel, relative to a mean and a squared deviation; nan
    if the output has another shape.
    """
    if np.shape(y) != np.shape(x):
        return Affine(np.full(len(mean), np.nan), np.full(len(mean), np.nan))
    slope, level, *_ = fit_channel_line(x, y)
    return Affine(slope * np.sqrt(inside), level + slope * mean)
