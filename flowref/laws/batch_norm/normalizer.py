"""Batches for a batch normalizer, and the results of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flowref.laws.batch_norm.arithmetic import broadcast_channels, nearest_float32
from flowref.model import Array, Shape
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.call import How
from flowref.model.steps import Assign, Eval, ModeChange, Normalize, Pullback, Pulled, Step, Train

MODES: Mapping[str, Step[ModeChange]] = {"train": Train(), "eval": Eval()}
# The number of rows for laws of small batches.
FEW = 3


def number_of_channels(flow: Flow) -> int:
    """The number of channels: the length of the first axis of an event."""
    return int(flow.event_shape[0])


def random_batch(flow: Flow, rng: np.random.Generator, rows: int = 0, event: Shape = ()) -> Array:
    """A batch ``(n, channels, *positions)`` whose channels differ in spread, offset (a few times
    the spread) and shape of the distribution. ``event``: the shape of its events, if not the
    layer's.
    """
    shape = (undivided(flow, rows or int(rng.integers(5, 12))), *(event or flow.event_shape))
    spread = 10.0 ** rng.uniform(-2.5, 1.5, number_of_channels(flow))
    offset = spread * rng.choice((0.0, 1.0, -3.0, 10.0), number_of_channels(flow))
    z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1.0, shape))
    return spread_out(z, spread, offset)


def spread_out(z: Array, spread: Array, offset: Array) -> Array:
    """A batch whose channels have the given spreads and offsets, ``(channels,)`` each."""
    return nearest_float32(broadcast_channels(offset, z) + broadcast_channels(spread, z) * z)


def normal_batch(flow: Flow, rng: np.random.Generator, rows: int) -> Array:
    """Standard normal values ``(n, channels, *positions)``; n as `undivided`."""
    return large_batch(flow, rng, undivided(flow, rows))


def large_batch(flow: Flow, rng: np.random.Generator, rows: int) -> Array:
    """Standard normal values ``(rows, channels, *positions)``."""
    return nearest_float32(rng.standard_normal((rows, *flow.event_shape)))


def undivided(flow: Flow, rows: int) -> int:
    """``rows``, or the rows of one part for layers that normalize parts of a batch, which may
    reject fewer.
    """
    normalizer = flow.facts.normalizer
    return normalizer.largest if normalizer and rows > FEW and normalizer.largest else rows


def output(flow: BatchNormal, x: Array, *before: Step[Any], how: How = "plain") -> Array:
    """The output of the normalizing call, after other steps."""
    normalize = Normalize(x, how)
    return flow.play([*before, normalize]).of(normalize)


def random_cotangent(x: Array, rng: np.random.Generator) -> Array:
    """Standard normal float32 values in the shape of x."""
    return nearest_float32(rng.standard_normal(x.shape))


def random_pullback(
    flow: BatchNormal, x: Array, rng: np.random.Generator, *before: Step[Any]
) -> tuple[Array, Pulled]:
    """A random cotangent, and its vector-Jacobian product for a batch, after other steps."""
    dy = random_cotangent(x, rng)
    return dy, flow.play([*before, Pullback(x, dy)])[-1]


def input_gradient(pulled: Pulled, x: Array) -> Array:
    """The gradient of a batch; zeros if there is none."""
    return np.zeros_like(x) if pulled.x is None else np.asarray(pulled.x, dtype=np.float64)


def settable(flow: BatchNormal, assign: Assign) -> bool:
    """Whether an attribute can be set."""
    try:
        flow.play([assign])
    except Exception:  # a property, or a value computed from others
        return False
    return True
