"""Weight and bias of a batch normalizer as its output shows them, beside its attributes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import moments, per_channel
from flowref.laws.batch_norm.normalizer import WIDE_SPREAD, Parameters, channels, normal_batch
from flowref.laws.common.outcomes import attempt
from flowref.model import Array
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, State, Step, Train

# How near an effective scale or shift must come to the parameter.
NEAR = 0.05


class Affine(NamedTuple):
    """Weight and bias, `(channels,)` each."""

    weight: Array
    bias: Array


class Apparent(NamedTuple):
    """Weight and bias as attributes, and as the output shows them in each mode."""

    assigned: Affine
    measured: list[Affine]


def apparent(flow: BatchNormal, weight: float, bias: float) -> Apparent | None:
    """Weight and bias after they were set, where that is possible, to values that rise from these
    over the channels; None where a call raises.
    """
    x = normal_batch(flow, np.random.default_rng(1), 64)
    begin: list[Step[Any]] = []
    for role, start in (("weight", weight), ("bias", bias)):
        assign = Assign(role, start + 1.3 * np.arange(channels(flow)))
        if role in flow.normalizer.roles and settable(flow, assign):
            begin.append(assign)
    begin.append(Roles())
    trained, error = attempt(flow.play, [*begin, Train(), Normalize(WIDE_SPREAD * x), Roles()])
    if error:
        return None
    *_, y, after = trained
    parameters = Parameters.of(flow, trained[len(begin) - 1])
    mean, var = moments(WIDE_SPREAD * x)
    averages = Parameters.of(flow, after)
    if flow.normalizer.statistics == "running" and len(averages.statistics) == 2:
        mean, var = averages.running
    measured = [fitted(WIDE_SPREAD * x, y, mean, np.sqrt(np.abs(var)))]
    if len(parameters.statistics) == 2:
        evaluated, error = attempt(flow.play, [*begin, Eval(), Normalize(x)])
        if error:
            return None
        mean, var = parameters.running
        deviation = np.sqrt(np.abs(var) + (parameters.eps or 0.0))
        measured.append(fitted(x, evaluated[-1], mean, deviation))
    return Apparent(Affine(parameters.scale, parameters.shift), measured)


def settable(flow: BatchNormal, assign: Assign) -> bool:
    """Whether an attribute can be set."""
    try:
        flow.play([assign])
    except Exception:  # a property, or a value computed from something else
        return False
    return True


def fitted(x: Array, y: Array, mean: Array, deviation: Array) -> Affine:
    """Weight and bias of the map per channel that a batch went through, relative to a mean and a
    standard deviation.
    """
    if np.shape(y) != np.shape(x):
        return Affine(np.full(len(mean), np.nan), np.full(len(mean), np.nan))
    points, values = per_channel(x), per_channel(y)
    center, level = points.mean(1), values.mean(1)
    moved = points - center[:, None]
    slope = (moved * values).sum(1) / (moved**2).sum(1)
    shift = level + slope * (mean - center)
    return Affine(
        np.asarray(slope * deviation, dtype=np.float64), np.asarray(shift, dtype=np.float64)
    )


def close(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    """Whether two pairs of weight and bias agree but for conventions of the variance."""
    size = 0.05 + np.abs(other[0])
    return all(bool((np.abs(a - b) <= NEAR * size).all()) for a, b in zip(one, other, strict=True))


def unexplained(flow: BatchNormal) -> list[str]:
    """Names of floating parameters and buffers that no role names."""
    roles = set(flow.normalizer.roles.values())
    step = State()
    state = flow.play([step]).of(step)
    floating = [name for name, value in state.items() if np.issubdtype(value.dtype, np.floating)]
    return [
        name
        for name in floating
        if not any(name == role or name.endswith(f".{role}") for role in roles)
    ]
