"""Floating point: the effect of an offset in float32, and of a batch with zero or nan variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    broadcast_channels,
    channel_gap,
    channel_moments,
    per_channel,
)
from flowref.laws.batch_norm.conditions import has_channels, stands_offsets, understood, usual
from flowref.laws.batch_norm.declaration import batch_norm_law
from flowref.laws.batch_norm.formula import Parameters
from flowref.laws.batch_norm.normalizer import (
    normal_batch,
    number_of_channels,
    output,
    random_batch,
    spread_out,
)
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import BOUND, EXACT, GIVEN, NEARBY, Array, Batch, Residual
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Cast, Eval, Normalize, Roles, State, Step, Train

# The unit roundoff of float32, and the factor of the error bound for an offset.
SINGLE_UNIT, STEPS = 2.0**-24, 16.0
# Relative error up to which the float64 output of an ordinary batch is that of the reference
# formula.
SAME = 1e-6
OFFSETS = (0.0, 1.0, 1e2, 1e3, 1e4)


@batch_norm_law(
    "batch-norm/numerics[offset]",
    key="normalisation/offset-stability",
    applies=understood & stands_offsets,
    tolerance=BOUND,
    effort=4,
    scales=NEARBY,
    source="the difference E[x^2] - E[x]^2 cancels: its relative error grows as (mean/std)^2, that of two passes as mean/std",
)
def offset_stability(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In float32, an offset of the input causes an error of at most $16u(1 + |\mu|/\sigma)(1 +
    |y|)$, for offsets up to $10^4\sigma$.
    """
    rng, count = np.random.default_rng(batch.seed), number_of_channels(flow)
    z = normal_batch(flow, rng, 16)
    spread = 10.0 ** rng.uniform(-1, 1, count)
    offset = rng.choice((-1.0, 1.0)) * spread * rng.choice(OFFSETS, count)
    offset[rng.integers(count)] = spread[0] * OFFSETS[-1 - batch.seed % 2]
    return beyond_rounding(flow, spread_out(z, spread, offset))


def beyond_rounding(flow: BatchNormal, x: Array) -> Residual:
    """The error of the float32 output of a batch relative to the bound for rounding; at most 1 is
    allowed.

    It is compared with the reference, or, for layers with another formula, which other laws
    report, with their own output in float64.
    """
    usual = normal_batch(flow, np.random.default_rng(0), 16)
    _, plain, own = flow.play([Train(), Normalize(usual), Normalize(x)])
    y, known = output(flow, x, Cast("float32"), Train()), Parameters.of(flow)

    def hat(points: Array) -> Array:
        return known.hat(points, *channel_moments(points, known.measured_freedom))

    size = np.abs(known.scale) + np.abs(known.shift)
    has_formula = channel_gap(plain, known.affine(hat(usual)), size).max() < SAME
    expected = known.affine(hat(x)) if has_formula else np.asarray(own, dtype=np.float64)
    mean, var = channel_moments(x, known.measured_freedom)
    s = np.sqrt(var + known.epsilon)
    with np.errstate(all="ignore"):
        loss = 1 + np.abs(mean) / np.where(s > 0, s, 1.0)
        terms = broadcast_channels(np.abs(known.scale) * loss, x) * (1 + np.abs(hat(x))) + np.abs(
            expected
        )
        allowed = STEPS * SINGLE_UNIT * terms
        excess = np.abs(np.asarray(y, dtype=np.float64) - expected)
        excess = excess / np.where(allowed > 0, allowed, 1.0)
    good = np.isfinite(excess) if y.shape == x.shape else np.zeros(x.shape, dtype=bool)
    value = np.where(good, excess, np.inf)
    note = "the output loses more to an offset than rounding in two passes explains"
    return Residual(value.reshape(1, -1), allowed=1.0, note=note if value.max() > 1 else "")


@batch_norm_law(
    "state/degenerate-batch[constant-channel]",
    key="normalisation/constant-batch",
    tolerance=EXACT,
    applies=usual,
    effort=2,
    scales=GIVEN,
    source="a feature that is constant over a batch has variance 0: a state that users reach, with a feature that is rare",
)
def constant_batch(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch with a constant channel raises an error, or leaves every parameter and
    buffer finite, and the next ordinary batch is finite in both modes.
    """
    rng = np.random.default_rng(batch.seed)
    odd = normal_batch(flow, rng, 6)
    odd[:, int(rng.integers(number_of_channels(flow)))] = rng.choice((0.0, 0.5, -3.0))
    x = normal_batch(flow, rng, 6)
    both: list[Step[Any]] = [Normalize(x), Eval(), Normalize(x)]
    plain, refused = attempt(flow.play, [Train(), *both])
    if refused or not all(np.isfinite(plain[index]).all() for index in (1, 3)):
        return flags(False, 1)  # no batch is normalized, which other laws report
    life, error = attempt(flow.play, [Train(), Normalize(odd), State(), *both])
    if error:
        return flags(False, 1)
    left = {
        **{name: one for name, one in life[2].items() if np.issubdtype(one.dtype, np.floating)},
        "the next batch in train mode": life[3],
        "the next batch in eval mode": life[5],
    }
    bad = ", ".join(name for name, values in left.items() if not np.isfinite(values).all())
    note = f"after a batch in which a channel was constant, {bad} is not finite"
    return flags(bool(bad), 1, note)


@batch_norm_law(
    "map/finite[nan-channel]",
    key="normalisation/nan-containment",
    tolerance=EXACT,
    applies=usual & has_channels,
    effort=2,
    scales=NEARBY,
    source="each feature is normalized independently, so that what is not a number spoils its own channel only",
)
def nan_containment(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a nan in one channel leaves outputs and running statistics of all other
    channels finite.
    """
    rng = np.random.default_rng(batch.seed)
    x, channel = random_batch(flow, rng, 6), int(rng.integers(number_of_channels(flow)))
    x[int(rng.integers(6)), channel] = np.nan
    _, y, roles = flow.play([Train(), Normalize(x), Roles()])
    left = {"outputs": per_channel(y).astype(np.float64), **Parameters.of(flow, roles).statistics}
    others = np.arange(number_of_channels(flow)) != channel
    bad = [name for name, values in left.items() if not np.isfinite(values[others]).all()]
    note = f"a nan in channel {channel} reached {', '.join(bad)} of other channels"
    return flags(bool(bad), 1, note)
