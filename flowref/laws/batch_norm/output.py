"""Laws of what a batch normalizer returns: the values, their moments, and how far they bear an
offset.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.layer import both, normalizes, refused, understood
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    epsilon,
    freedom,
    held,
    largest,
    measured_freedom,
    moments,
    normalizer_law,
    ordinary,
    per_channel,
    play,
    ratio,
    single,
    spec,
    standardized,
    told,
    wide,
)
from flowref.model import BOUND, Array, Batch, Residual
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Assign, Cast, Eval, Normalize, Roles, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithm 1"
# The unit roundoff of float32, and the factor of the bound on what an offset may cost.
SINGLE_UNIT, STEPS = 2.0**-24, 16.0
# Another formula is named if it is nearer than this, relative to the reference.
LIKE = 1e-4
# A layer whose float64 output of an ordinary batch is nearer than this has the reference's formula.
SAME = 1e-6
OFFSETS = (0.0, 1.0, 1e2, 1e3, 1e4)


@normalizer_law(
    "batch-norm/matches-reference",
    former="normalisation/matches-reference",
    applies=understood,
    effort=8,
    source=IOFFE,
)
def matches_reference(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The output is $w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel, with mean and biased
    variance of the batch in train mode and with the running statistics in eval mode.
    """
    x, count = drawn(flow, np.random.default_rng(batch.seed)), channels(flow)
    roles, _, calm, _, trained = play(flow, [Roles(), Eval(), Normalize(x), Train(), Normalize(x)])
    known = held(roles)
    eps, weight, bias = epsilon(flow, known), known.scale(count), known.shift(count)
    rows, notes, less = [], [], freedom(flow, known)
    modes: list[tuple[str, Array, tuple[Array, Array]]] = [("train", trained, moments(x, less))]
    if known.running_mean is not None and known.running_var is not None:
        modes.append(("eval", calm, (known.running_mean, known.running_var)))
    for mode, got, (mean, var) in modes:
        hat = standardized(x, mean, var, eps)
        size = np.abs(weight) * (1 + largest(hat)) + np.abs(bias)

        def off(standard: Array, got: Array = got, size: Array = size) -> Array:
            return apart(got, wide(weight, x) * standard + wide(bias, x), size)

        rows.append(off(hat))
        others = {
            "the variance is divided by n - 1 instead of n": standardized(
                x, *moments(x, 1 - less), eps
            ),
            "eps is outside the square root": (x - wide(mean, x)) / (np.sqrt(wide(var, x)) + eps),
            "eps is left out": standardized(x, mean, var, 0.0),
        }
        why = [
            name
            for name, other in others.items()
            if mode == "train" and off(other).max() < LIKE * rows[-1].max()
        ]
        notes.append(
            f"in {mode} mode the output is not the reference's" + (f": {why[0]}" if why else "")
        )
    worst = int(np.argmax([np.nan_to_num(row, nan=np.inf).max() for row in rows]))
    return told(np.stack(rows), notes[worst])


@normalizer_law(
    "batch-norm/moments", former="normalisation/moments", applies=understood, effort=6, source=IOFFE
)
def output_moments(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode, before weight and bias, every channel of the output has mean 0 and variance
    $v / (v + \epsilon)$.
    """
    x, count = drawn(flow, np.random.default_rng(batch.seed)), channels(flow)
    roles, _, y = play(flow, [Roles(), Train(), Normalize(x)])
    known = held(roles)
    weight, bias, eps = known.scale(count), known.shift(count), epsilon(flow, known)
    var, (mean_out, var_out) = moments(x)[1], moments(y)
    expected = var / (moments(x, freedom(flow, known))[1] + eps)
    size = np.abs(weight) + np.abs(bias)
    return told(
        np.stack(
            [
                ratio(mean_out - bias, size),
                ratio(var_out - weight**2 * expected, weight**2 + bias**2),
            ]
        ),
        "mean or variance of the output is not what normalization makes it",
        mean=mean_out,
        variance=var_out,
        expected_mean=bias,
        expected_variance=weight**2 * expected,
    )


@normalizer_law(
    "batch-norm/shape-of-distribution",
    former="normalisation/shape-of-distribution",
    applies=normalizes,
    effort=4,
    scales=(0.0, 0.3),
    source="an affine map moves mean and variance and nothing else: normalized values are not made Gaussian",
)
def shape_of_distribution(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the standardized third and fourth moments of every channel are those of the
    input, but for the sign of the weight.
    """
    x = drawn(flow, np.random.default_rng(batch.seed), 9)
    y = play(flow, [Train(), Normalize(x)])[-1]
    (third, fourth), (third_out, fourth_out) = higher(x), higher(y)
    flat = moments(y)[1] == 0
    third_gap = np.abs(np.abs(third_out) - np.abs(third)) / (1 + np.abs(third))
    rows = np.where(flat, 0.0, np.stack([third_gap, np.abs(fourth_out - fourth) / (1 + fourth)]))
    return told(
        rows, "the shape of the distribution changed", kurtosis=fourth_out, expected_kurtosis=fourth
    )


def higher(x: Array) -> tuple[Array, Array]:
    """Skewness and kurtosis of each channel."""
    rows = per_channel(x)
    rows = rows - rows.mean(1, keepdims=True)
    spread = np.sqrt((rows**2).mean(1, keepdims=True))
    rows = rows / np.where(spread > 0, spread, 1)
    return np.asarray((rows**3).mean(1), dtype=np.float64), np.asarray(
        (rows**4).mean(1), dtype=np.float64
    )


@normalizer_law(
    "batch-norm/offset-stability",
    former="normalisation/offset-stability",
    applies=understood,
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
    z = ordinary(flow, rng, 16)
    spread = 10.0 ** rng.uniform(-1, 1, channels(flow))
    offset = rng.choice((-1.0, 1.0)) * spread * rng.choice(OFFSETS, channels(flow))
    offset[rng.integers(channels(flow))] = spread[0] * OFFSETS[-1 - batch.seed % 2]
    return borne(flow, single(wide(offset, z) + wide(spread, z) * z))


@normalizer_law(
    "batch-norm/constant-channel",
    former="normalisation/constant-channel",
    applies=understood,
    tolerance=BOUND,
    effort=4,
    scales=(0.0, 0.3),
    source="a constant has variance 0, which the difference E[x^2] - E[x]^2 makes negative in floating point",
)
def constant_channel(flow: BatchNormal, batch: Batch) -> Residual:
    """In float32, a channel that is constant over the batch becomes its bias, up to the rounding of
    its mean.
    """
    rng = np.random.default_rng(batch.seed)
    level = 10.0 ** rng.uniform(-1, 3.3, channels(flow))
    x = single(wide(level, np.zeros((8, *flow.event_shape))) + np.zeros((8, *flow.event_shape)))
    return borne(flow, x)


def borne(flow: Flow, x: Array) -> Residual:
    """How far the float32 output of a batch is beyond what rounding may cost it, relative to that;
    at most 1 is allowed.

    It is held against the reference, or, where the layer has another formula, which other laws
    report, against its own output.
    """
    calm = ordinary(flow, np.random.default_rng(0), 16)
    roles, _, plain, own = play(flow, [Roles(), Train(), Normalize(calm), Normalize(x)])
    y = play(flow, [Cast("float32"), Train(), Normalize(x)])[-1]
    known, count = held(roles), channels(flow)
    weight, bias, freedom = known.scale(count), known.shift(count), measured_freedom(flow, known)
    eps = epsilon(flow, known)

    def formula(points: Array) -> Array:
        hat = standardized(points, *moments(points, freedom), eps)
        return np.asarray(wide(weight, points) * hat + wide(bias, points))

    mean, var = moments(x, freedom)
    deviation = np.sqrt(var + eps)
    size = np.abs(weight) + np.abs(bias)
    expected = (
        formula(x)
        if apart(plain, formula(calm), size).max() < SAME
        else np.asarray(own, dtype=np.float64)
    )
    with np.errstate(all="ignore"):
        loss = 1 + np.abs(mean) / np.where(deviation > 0, deviation, 1.0)
        hat = np.abs(standardized(x, mean, var, eps))
        allowed = (
            STEPS * SINGLE_UNIT * (wide(np.abs(weight) * loss, x) * (1 + hat) + np.abs(expected))
        )
        excess = np.abs(np.asarray(y, dtype=np.float64) - expected) / np.where(
            allowed > 0, allowed, 1.0
        )
    value = (
        np.where(np.isfinite(excess), excess, np.inf)
        if y.shape == x.shape
        else np.full(x.shape, np.inf)
    )
    note = (
        "the output loses more to an offset than rounding in two passes explains"
        if value.max() > 1
        else ""
    )
    return Residual(value.reshape(1, -1), allowed=1.0, note=note)


def restores(flow: Flow) -> str | None:
    """Weight and bias can be set."""
    for role, value in (
        ("weight", np.ones(channels(flow))),
        ("bias", np.zeros(channels(flow))),
    ):
        if role not in spec(flow).roles:
            return f"it has no {role}"
        if refused(flow, Assign(role, value)):
            return f"its {role} is computed from something else"
    return None


@normalizer_law(
    "batch-norm/identity-recovery",
    former="normalisation/identity-recovery",
    applies=both(normalizes, restores, understood),
    effort=4,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, section 3: scale and shift can represent the identity, for one batch",
)
def identity_recovery(flow: BatchNormal, batch: Batch) -> Residual:
    r"""With the weight $\sqrt{v + \epsilon}$ and the bias $\mu$ of a batch, that batch is returned
    as it is.
    """
    x = drawn(flow, np.random.default_rng(batch.seed))
    known = held(play(flow, [Roles()])[0])
    eps = epsilon(flow, known)
    mean, var = moments(x, measured_freedom(flow, known))
    weight = np.sqrt(var + eps)
    y = play(
        flow,
        [Assign("weight", weight), Assign("bias", mean), Train(), Normalize(x)],
    )[-1]
    return told(apart(y, x, largest(x) + weight), "the batch does not come back")


@normalizer_law(
    "batch-norm/two-values",
    former="normalisation/two-values",
    applies=understood,
    effort=4,
    source="algorithm 1 for two values: mean (a + b)/2, biased variance ((a - b)/2)^2",
)
def two_values(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Two values $a, b$ per channel become $\pm d / \sqrt{d^2 + 4\epsilon}$ with $d = a - b$,
    before weight and bias.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    pair = single(rng.standard_normal((2, count)) * 10.0 ** rng.uniform(-3, 1, count))
    x = (
        np.broadcast_to(
            pair.reshape(2, count, *[1] * (len(flow.event_shape) - 1)), (2, *flow.event_shape)
        )
        + 0.0
    )
    roles, _, y = play(flow, [Roles(), Train(), Normalize(x)])
    known = held(roles)
    weight, bias, eps = known.scale(count), known.shift(count), epsilon(flow, known)
    values = per_channel(x).shape[1]
    difference = pair[0] - pair[1]
    hat = difference / np.sqrt(
        difference**2 * values / (values - measured_freedom(flow, known)) + 4 * eps
    )
    expected = np.stack([bias + weight * hat, bias - weight * hat])
    expected = np.broadcast_to(expected.reshape(2, count, *[1] * (x.ndim - 2)), x.shape)
    return told(
        apart(y, expected, np.abs(weight) + np.abs(bias)),
        "two values are not mapped to the two values of the formula",
    )
