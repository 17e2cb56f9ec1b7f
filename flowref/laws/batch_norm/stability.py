"""Laws of what an offset may cost a batch normalizer in float32."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, moments, single, standardized, wide
from flowref.laws.batch_norm.conditions import understood
from flowref.laws.batch_norm.declaring import batch_norm_law
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    epsilon,
    measured_freedom,
    normal_batch,
    output,
)
from flowref.model import BOUND, Array, Batch, Residual, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Cast, Normalize, Roles, Train

# The unit roundoff of float32, and the factor of the bound on what an offset may cost.
SINGLE_UNIT, STEPS = 2.0**-24, 16.0
# A layer whose float64 output of an ordinary batch is nearer than this has the reference's formula.
SAME = 1e-6
OFFSETS = (0.0, 1.0, 1e2, 1e3, 1e4)


@requires("its documentation says that its variance is the less accurate one of one pass")
def stands_offsets(flow: BatchNormal) -> bool:
    """Nothing is documented of what an offset costs."""
    return flow.normalizer.declared.get("offsets") != "documented"


@batch_norm_law(
    "batch-norm/offset-stability",
    applies=understood & stands_offsets,
    tolerance=BOUND,
    effort=6,
    scales=(0.0, 0.3),
    source="the difference E[x^2] - E[x]^2 cancels: its relative error grows as (mean/std)^2, that of two passes as mean/std",
)
def offset_stability(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In float32, an offset of the input costs no more than $16u(1 + |\mu|/\sigma)(1 + |y|)$, for
    offsets up to $10^4\sigma$.
    """
    rng = np.random.default_rng(batch.seed)
    z = normal_batch(flow, rng, 16)
    spread = 10.0 ** rng.uniform(-1, 1, channels(flow))
    offset = rng.choice((-1.0, 1.0)) * spread * rng.choice(OFFSETS, channels(flow))
    offset[rng.integers(channels(flow))] = spread[0] * OFFSETS[-1 - batch.seed % 2]
    return beyond_rounding(flow, single(wide(offset, z) + wide(spread, z) * z))


@batch_norm_law(
    "batch-norm/constant-channel",
    applies=understood & stands_offsets,
    tolerance=BOUND,
    scales=(0.0, 0.3),
    source="a constant has variance 0, which the difference E[x^2] - E[x]^2 makes negative in floating point",
)
def constant_channel(flow: BatchNormal, batch: Batch) -> Residual:
    """In float32, a channel that is constant over the batch becomes its bias, up to the rounding of
    its mean.
    """
    rng = np.random.default_rng(batch.seed)
    level = 10.0 ** rng.uniform(-1, 3.3, channels(flow))
    zeros = np.zeros((8, *flow.event_shape))
    return beyond_rounding(flow, single(wide(level, zeros) + zeros))


def beyond_rounding(flow: BatchNormal, x: Array) -> Residual:
    """How far the float32 output of a batch is beyond what rounding may cost it, relative to that;
    at most 1 is allowed.

    It is compared with the reference, or, where the layer has another formula, which other laws
    report, with its own output in float64.
    """
    usual = normal_batch(flow, np.random.default_rng(0), 16)
    roles, _, plain, own = flow.play([Roles(), Train(), Normalize(usual), Normalize(x)])
    y = output(flow, x, Cast("float32"), Train())
    parameters = Parameters.of(flow, roles)
    freedom, eps = measured_freedom(flow, parameters), epsilon(flow, parameters)

    def formula(points: Array) -> Array:
        return parameters.affine(standardized(points, *moments(points, freedom), eps))

    mean, var = moments(x, freedom)
    deviation = np.sqrt(var + eps)
    size = np.abs(parameters.scale) + np.abs(parameters.shift)
    has_formula = apart(plain, formula(usual), size).max() < SAME
    expected = formula(x) if has_formula else np.asarray(own, dtype=np.float64)
    with np.errstate(all="ignore"):
        loss = 1 + np.abs(mean) / np.where(deviation > 0, deviation, 1.0)
        hat = np.abs(standardized(x, mean, var, eps))
        terms = wide(np.abs(parameters.scale) * loss, x) * (1 + hat) + np.abs(expected)
        allowed = STEPS * SINGLE_UNIT * terms
        excess = np.abs(np.asarray(y, dtype=np.float64) - expected)
        excess = excess / np.where(allowed > 0, allowed, 1.0)
    good = np.isfinite(excess) if y.shape == x.shape else np.zeros(x.shape, dtype=bool)
    value = np.where(good, excess, np.inf)
    note = "the output loses more to an offset than rounding in two passes explains"
    return Residual(value.reshape(1, -1), allowed=1.0, note=note if value.max() > 1 else "")
