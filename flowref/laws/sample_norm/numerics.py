"""The effect of an offset in float32, and the variance convention of sample norms."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import nearest_float32
from flowref.laws.batch_norm.conditions import stands_offsets
from flowref.laws.batch_norm.normalizer import normal_batch, output
from flowref.laws.batch_norm.numerics import OFFSETS, SINGLE_UNIT, STEPS
from flowref.laws.common.outcomes import flags
from flowref.laws.sample_norm.formula import (
    BA,
    MANY,
    ROWS,
    WU,
    holds_weights_alone,
    whole_groups,
)
from flowref.laws.sample_norm.groups import (
    centers,
    group_constants,
    normalizes_samples,
    spread_over,
    values_together,
    weight_and_bias,
)
from flowref.laws.sample_norm.parameters import channel_numbers
from flowref.model import ADVICE, BOUND, EXACT, GIVEN, Batch, Residual, Unsupported, law
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Cast, Roles, Train
from flowref.model.structure.line_fits import WIDE

# Relative distance from a factor up to which a ratio equals it.
NEAR = 1e-6


@law(
    "batch-norm/numerics[per-sample]",
    key="sample-norm/offset",
    applies=normalizes_samples & centers & holds_weights_alone & whole_groups & stands_offsets,
    tolerance=BOUND,
    size=1,
    local=False,
    effort=4,
    source="the difference E[x^2] - E[x]^2 cancels: its relative error grows as (mean/std)^2, that of two passes as mean/std",
)
def offset_stability(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In float32, an offset of values that are normalized together causes an error of at most
    $16u(1 + |\mu|/\sigma)(1 + |y|)$, for offsets up to $10^4\sigma$.
    """
    rng = np.random.default_rng(batch.seed)
    wide = WIDE * normal_batch(flow, rng, MANY)
    weight, bias = (
        np.abs(one) for one in weight_and_bias(flow, wide, output(flow, wide, Train()), np.sqrt)
    )
    spread = 10.0 ** rng.uniform(-1, 1)
    offset = spread * OFFSETS[-1 - batch.seed % 2]
    x = nearest_float32(
        spread * normal_batch(flow, rng, ROWS) + group_constants(flow, rng, ROWS, offset)
    )
    expected, y = (output(flow, x, *cast, Train()) for cast in ((), (Cast("float32"),)))
    mean, var = spread_over(flow, x)
    with np.errstate(all="ignore"):
        deviation = np.sqrt(var)
        loss = 1 + np.abs(mean) / deviation
        size = weight * loss * (1 + np.abs(x - mean) / deviation) + bias + np.abs(expected)
        excess = np.abs(np.asarray(y, dtype=np.float64) - expected) / (STEPS * SINGLE_UNIT * size)
    worst = float(np.where(np.isfinite(excess), excess, np.inf)[np.isfinite(size)].max(initial=0.0))
    note = "the output loses more to an offset than rounding in two passes explains"
    return Residual(np.array([[worst]]), allowed=1.0, note=note if worst > 1 else "")


@law(
    "batch-norm/conventions[variance, per-sample]",
    key="sample-norm/variance",
    force=ADVICE,
    tolerance=EXACT,
    applies=normalizes_samples & centers & holds_weights_alone & whole_groups,
    size=1,
    local=False,
    effort=1,
    scales=GIVEN,
    source=f"{BA}, section 3; {WU}, section 3: a sample is normalized by its biased variance",
)
def variance_convention(flow: BatchNormal, batch: Batch) -> Residual:
    """A layer that normalizes each sample by itself uses its biased variance, or, if documented,
    the unbiased one.
    """
    wide = WIDE * normal_batch(flow, np.random.default_rng(batch.seed), MANY)
    slopes, _ = weight_and_bias(flow, wide, output(flow, wide, Train()), np.sqrt)
    held = flow.play([Roles()])[0].get("weight")
    numbers = np.ones(1) if held is None else np.asarray(held, dtype=np.float64).reshape(-1)
    weights = (
        [numbers[at] for at in channel_numbers(flow, numbers.size)]
        if numbers.size > 1
        else [numbers]
    )
    if not weights or "weight" in flow.normalizer.forms:
        raise Unsupported("its weight is no number for each channel", blocked=False)
    count = values_together(flow)
    bessel = np.sqrt(1 - 1 / count) if count > 1 else 1.0
    with np.errstate(all="ignore"):
        unbiased = any(np.allclose(slopes, bessel * one, rtol=NEAR) for one in weights)
        biased = any(np.allclose(slopes, one, rtol=NEAR) for one in weights)
    note = "samples are normalized by their unbiased variance: n/(n - 1) times the papers'"
    seen = unbiased and not biased and flow.normalizer.declared.get("variance") != "unbiased"
    return flags(seen, 1, note)
