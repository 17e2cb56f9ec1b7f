"""Laws of what a batch normalizer returns: the values, and their moments."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.affine import settable
from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    per_channel,
    ratio,
    single,
    standardized,
    wide,
    worst,
)
from flowref.laws.batch_norm.conditions import affine, normalizes, understood
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    epsilon,
    freedom,
    measured_freedom,
    output,
    random_batch,
)
from flowref.model import Array, Batch, Residual, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithm 1"
# Another formula is named if it is nearer than this, relative to the reference.
LIKE = 1e-4


@batch_norm_law("batch-norm/matches-reference", applies=understood, effort=8, source=IOFFE)
def matches_reference(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The output is $w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel, with mean and biased
    variance of the batch in train mode and with the running statistics in eval mode.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    life = flow.play([Roles(), Eval(), Normalize(x), Train(), Normalize(x)])
    roles, _, evaluated, _, trained = life
    parameters = Parameters.of(flow, roles)
    eps, less = epsilon(flow, parameters), freedom(flow, parameters)
    hat = standardized(x, *moments(x, less), eps)
    size = parameters.magnitude(hat)
    rows = [apart(trained, parameters.affine(hat), size)]
    nearer = [
        f": {name}"
        for name, other in other_formulas(x, eps, less).items()
        if apart(trained, parameters.affine(other), size).max() < LIKE * rows[0].max()
    ]
    notes = ["in train mode the output is not the reference's" + "".join(nearer[:1])]
    if len(parameters.statistics) == 2:
        hat = standardized(x, *parameters.running, eps)
        rows.append(apart(evaluated, parameters.affine(hat), parameters.magnitude(hat)))
        notes.append("in eval mode the output is not the reference's")
    furthest = int(np.argmax([worst(row) for row in rows]))
    return batch_residual(np.stack(rows), notes[furthest])


def other_formulas(x: Array, eps: float, freedom: int) -> dict[str, Array]:
    """A batch standardized by formulas that are taken for the reference's."""
    mean, var = moments(x, freedom)
    return {
        "the variance is divided by n - 1 instead of n": standardized(
            x, *moments(x, 1 - freedom), eps
        ),
        "eps is outside the square root": (x - wide(mean, x)) / (np.sqrt(wide(var, x)) + eps),
        "eps is left out": standardized(x, mean, var, 0.0),
    }


@batch_norm_law("batch-norm/moments", applies=understood, effort=6, source=IOFFE)
def output_moments(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode, before weight and bias, every channel of the output has mean 0 and variance
    $v / (v + \epsilon)$.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    roles, _, y = flow.play([Roles(), Train(), Normalize(x)])
    parameters = Parameters.of(flow, roles)
    weight, bias, eps = parameters.scale, parameters.shift, epsilon(flow, parameters)
    var, (mean_out, var_out) = moments(x)[1], moments(y)
    expected = weight**2 * (var / (moments(x, freedom(flow, parameters))[1] + eps))
    rows = [
        ratio(mean_out - bias, np.abs(weight) + np.abs(bias)),
        ratio(var_out - expected, weight**2 + bias**2),
    ]
    return batch_residual(
        np.stack(rows),
        "mean or variance of the output is not what normalization makes it",
        mean=mean_out,
        variance=var_out,
        expected_mean=bias,
        expected_variance=expected,
    )


@batch_norm_law(
    "batch-norm/shape-of-distribution",
    applies=normalizes,
    scales=(0.0, 0.3),
    source="an affine map moves mean and variance and nothing else: normalized values are not made Gaussian",
)
def shape_of_distribution(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the standardized third and fourth moments of every channel are those of the
    input, but for the sign of the weight.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed), 9)
    y = output(flow, x, Train())
    (third, fourth), (third_out, fourth_out) = higher_moments(x), higher_moments(y)
    flat = moments(y)[1] == 0
    third_gap = np.abs(np.abs(third_out) - np.abs(third)) / (1 + np.abs(third))
    rows = np.where(flat, 0.0, np.stack([third_gap, np.abs(fourth_out - fourth) / (1 + fourth)]))
    return batch_residual(
        rows, "the shape of the distribution changed", kurtosis=fourth_out, expected_kurtosis=fourth
    )


def higher_moments(x: Array) -> tuple[Array, Array]:
    """Skewness and kurtosis of each channel."""
    rows = per_channel(x)
    rows = rows - rows.mean(1, keepdims=True)
    spread = np.sqrt((rows**2).mean(1, keepdims=True))
    rows = rows / np.where(spread > 0, spread, 1)
    return (rows**3).mean(1).astype(np.float64), (rows**4).mean(1).astype(np.float64)


@requires("its weight and its bias cannot be set", waits=True)
def takes_parameters(flow: BatchNormal) -> bool:
    """Weight and bias can be set."""
    for role, values in (("weight", np.ones(channels(flow))), ("bias", np.zeros(channels(flow)))):
        if role not in flow.normalizer.roles:
            raise Unsupported(f"it has no {role}")
        if not settable(flow, Assign(role, values)):
            raise Unsupported(f"its {role} is computed from something else")
    return True


@batch_norm_law(
    "batch-norm/identity-recovery",
    applies=normalizes & takes_parameters & affine,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, section 3: scale and shift can represent the identity, for one batch",
)
def identity_recovery(flow: BatchNormal, batch: Batch) -> Residual:
    r"""With the weight $\sqrt{v + \epsilon}$ and the bias $\mu$ of a batch, that batch is returned
    as it is.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    parameters = Parameters.of(flow)
    eps = epsilon(flow, parameters)
    mean, var = moments(x, measured_freedom(flow, parameters))
    weight = np.sqrt(var + eps)
    y = output(flow, x, Assign("weight", weight), Assign("bias", mean), Train())
    return batch_residual(apart(y, x, largest(x) + weight), "the batch does not come back")


@batch_norm_law(
    "batch-norm/two-values",
    applies=understood,
    source="algorithm 1 for two values: mean (a + b)/2, biased variance ((a - b)/2)^2",
)
def two_values(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Two values $a, b$ per channel become $\pm d / \sqrt{d^2 + 4\epsilon}$ with $d = a - b$,
    before weight and bias.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    pair = single(rng.standard_normal((2, count)) * 10.0 ** rng.uniform(-3, 1, count))
    x = over_positions(flow, pair) + 0.0
    roles, _, y = flow.play([Roles(), Train(), Normalize(x)])
    parameters = Parameters.of(flow, roles)
    weight, bias, eps = parameters.scale, parameters.shift, epsilon(flow, parameters)
    values = per_channel(x).shape[1]
    difference = pair[0] - pair[1]
    hat = difference / np.sqrt(
        difference**2 * values / (values - measured_freedom(flow, parameters)) + 4 * eps
    )
    expected = over_positions(flow, np.stack([bias + weight * hat, bias - weight * hat]))
    return batch_residual(
        apart(y, expected, np.abs(weight) + np.abs(bias)),
        "two values are not mapped to the two values of the formula",
    )


def over_positions(flow: BatchNormal, pair: Array) -> Array:
    """Two rows of one value per channel, the same at every position."""
    rows = pair.reshape(*pair.shape, *[1] * (len(flow.event_shape) - 1))
    return np.broadcast_to(rows, (2, *flow.event_shape))
