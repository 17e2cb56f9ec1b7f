r"""The arithmetic of batch normalization in numpy, and the scenarios in which a normalizer is
measured.

Shapes: x and y `(batch, channels, *positions)`; anything kept per channel `(channels,)`. All sums
are in extended precision.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Normalizer, Residual, Unsupported, law
from flowref.model.abilities import Flow
from flowref.model.steps import Eval, Normalize, Run, Train

Steps = list[tuple[Any, ...]]
# Batches that find out what is not told: spread so wide that eps does not count, and so narrow that
# nothing else does.
WIDE_SPREAD, NARROW_SPREAD = 1e3, 1e-7
# Laws of whole batches: one residual each, on batches of their own.
normalizer_law = partial(law, size=1, local=False)


class Held(NamedTuple):
    """What a batch normalizer holds; None for what nothing plays."""

    weight: Array | None
    bias: Array | None
    running_mean: Array | None
    running_var: Array | None
    num_batches: float | None
    eps: float | None
    momentum: float | None

    def scale(self, channels: int) -> Array:
        """The weight of each channel, ones where there is none."""
        return np.ones(channels) if self.weight is None else self.weight

    def shift(self, channels: int) -> Array:
        """The bias of each channel, zeros where there is none."""
        return np.zeros(channels) if self.bias is None else self.bias


def held(roles: dict[str, Any]) -> Held:
    """The outcome of a step "roles", with tensors flattened to one number per channel."""
    tensors = [roles.get(role) for role in ("weight", "bias", "running_mean", "running_var")]
    numbers = [roles.get(role) for role in ("num_batches", "eps", "momentum")]
    flat = [None if t is None else np.asarray(t, dtype=np.float64).reshape(-1) for t in tensors]
    single = [None if n is None else float(np.asarray(n).reshape(-1)[0]) for n in numbers]
    return Held(flat[0], flat[1], flat[2], flat[3], single[0], single[1], single[2])


def spec(flow: Flow) -> Normalizer:
    """What is known of a normalizer."""

    return flow.normalizer


def play(flow: Flow, steps: Steps) -> list[Any]:
    """Play a scenario."""

    return flow.play(steps)


def channels(flow: Flow) -> int:
    """The number of channels: the first axis of an event."""
    return int(flow.event_shape[0])


def single(x: Array) -> Array:
    """The nearest values that float32 holds, so that a batch is the same in either precision."""
    return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def drawn(flow: Flow, rng: np.random.Generator, rows: int = 0) -> Array:
    """A batch whose channels differ in spread, offset (a few times the spread) and shape of
    distribution.
    """
    shape = (rows or int(rng.integers(5, 12)), *flow.event_shape)
    spread = 10.0 ** rng.uniform(-2.5, 1.5, channels(flow))
    offset = spread * rng.choice((0.0, 1.0, -3.0, 10.0), channels(flow))
    z = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.exponential(1.0, shape))
    return single(wide(offset, z) + wide(spread, z) * z)


def ordinary(flow: Flow, rng: np.random.Generator, rows: int) -> Array:
    """A batch of standard normal values."""
    return single(rng.standard_normal((rows, *flow.event_shape)))


def wide(values: Array, x: Array) -> Array:
    """Numbers per channel, to be combined with a batch."""
    return np.asarray(values).reshape(1, -1, *[1] * (x.ndim - 2))


def per_channel(x: Array) -> Array:
    """The values of each channel, `(channels, values)`, in extended precision."""
    return np.moveaxis(np.asarray(x), 1, 0).reshape(x.shape[1], -1).astype(np.longdouble)


def moments(x: Array, freedom: int = 0) -> tuple[Array, Array]:
    r"""Mean and variance of each channel, $v = \sum (x - \mu)^2 / (n - f)$, in two passes."""
    rows = per_channel(x)
    mean = rows.mean(1)
    var = ((rows - mean[:, None]) ** 2).sum(1) / max(rows.shape[1] - freedom, 1)
    return mean.astype(np.float64), var.astype(np.float64)


def standardized(x: Array, mean: Array, var: Array, eps: float) -> Array:
    r"""$\hat x = (x - \mu) / \sqrt{v + \epsilon}$."""
    return np.asarray((x - wide(mean, x)) / np.sqrt(wide(var, x) + eps))


def summed(values: Array) -> Array:
    """The sum over each channel, `(channels,)`."""
    return np.asarray(per_channel(values).sum(1), dtype=np.float64)


def largest(values: Array) -> Array:
    """The largest absolute value of each channel, `(channels,)`."""
    return np.asarray(np.abs(per_channel(values)).max(1), dtype=np.float64)


def apart(got: Array, expected: Array, size: Array) -> Array:
    """How far two batches are apart in each channel, relative to a size `(channels,)`; inf where
    the shapes differ.
    """
    if np.shape(got) != np.shape(expected):
        return np.full(len(size), np.inf)
    return ratio(largest(np.asarray(got, dtype=np.float64) - expected), size)


def ratio(difference: Array, size: Array) -> Array:
    """A difference relative to a size; 0 for no difference."""
    difference, size = np.asarray(difference, dtype=np.float64), np.asarray(size, dtype=np.float64)
    return np.where(difference == 0, 0.0, difference / np.where(size > 0, size, 1.0))


def told(value: Array, note: str = "", **details: Any) -> Residual:
    """The residual of a whole batch, one column per channel; named numbers get the row that readers
    look up.
    """
    row = np.asarray(value, dtype=np.float64).reshape(1, -1)
    seen = {
        name.replace("_", " "): np.asarray(number, dtype=np.float64)[None]
        for name, number in details.items()
    }
    return Residual(row, observed=seen, note=note if np.nan_to_num(row, nan=1.0).any() else "")


def epsilon(flow: Flow, known: Held) -> float:
    r"""The $\epsilon$ of a normalizer; where no attribute holds it, that with which a batch of tiny
    spread is normalized.

    Two values $\pm d$ give $\hat x = d / \sqrt{d^2 + \epsilon}$. Rounded to three digits, so that
    it is a constant.
    """
    if known.eps is not None:
        return known.eps
    count = channels(flow)
    x = np.stack([np.full(flow.event_shape, sign * NARROW_SPREAD) for sign in (1.0, -1.0)])
    y = play(flow, [Train(), Normalize(x)])[-1]
    weight = known.scale(count)
    place = int(np.abs(weight).argmax())
    with np.errstate(all="ignore"):
        hat = float(
            ((per_channel(y)[place, 0] - known.shift(count)[place]) / weight[place]).astype(
                np.float64
            )
        )
        found = (NARROW_SPREAD / hat) ** 2 - NARROW_SPREAD**2
    if not np.isfinite(found):
        raise Unsupported("its eps is not known")
    return 0.0 if found < 1e-2 * NARROW_SPREAD**2 else float(f"{found:.3g}")


def freedom(flow: Flow, known: Held) -> int:
    """Whether normalization may divide by n - 1 instead of n, 1 or 0: where that is declared, and
    in a flow layer that does.

    A flow layer claims a map with its log-det, of which any variance makes one; that it is not the
    paper's is advice.
    """
    if spec(flow).declared.get("variance") == "unbiased":
        return 1
    return measured_freedom(flow, known) if is_flow(flow) else 0


def is_flow(flow: Flow) -> bool:
    """Whether a normalizer is a layer of a flow, which has an inverse or returns a log-det."""
    if flow.inverse is not None:
        return True
    x = np.zeros((2, *flow.event_shape))
    return play(flow, [Eval(), Run(spec(flow).call, x)])[-1].ladj is not None


def measured_freedom(flow: Flow, known: Held) -> int:
    """Whether a batch is in fact normalized with n - 1 instead of n, for laws that hold of either."""
    x = np.stack([np.full(flow.event_shape, sign * WIDE_SPREAD) for sign in (1.0, -1.0)])
    y = per_channel(play(flow, [Train(), Normalize(x)])[-1])
    count, values = channels(flow), y.shape[1]
    place = int(np.abs(known.scale(count)).argmax())
    size = float(
        np.abs(y[place] - known.shift(count)[place]).mean() / abs(known.scale(count)[place])
    )
    return int(abs(size - np.sqrt((values - 1) / values)) < abs(size - 1))
