"""Laws of flow layers that normalize by running averages in train mode, as Real NVP does."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    per_channel,
    smallest,
    standardized,
    summed,
    wide,
)
from flowref.laws.batch_norm.conditions import takes_momentum
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.flow import tracked_layer
from flowref.laws.batch_norm.gradients import random_cotangent
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    epsilon,
    input_gradient,
    output,
    random_batch,
)
from flowref.laws.common.arithmetic import reported
from flowref.model import VOLUME, Array, Batch, Residual, Undecidable, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Normalize, Pullback, Roles, Run, Train

APPENDIX = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E"


@requires("in train mode it normalizes by the statistics of the batch alone")
def normalizes_by_averages(flow: BatchNormal) -> bool:
    """Running averages, which the batch has entered, are what train mode normalizes by."""
    return flow.normalizer.statistics == "running"


averaged = normalizes_by_averages & tracked_layer


@batch_norm_law("batch-norm/running-average-used", applies=averaged, source=APPENDIX)
def running_average_used(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, these are the averages that the batch has
    entered already.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    _, y, roles = flow.play([Train(), Normalize(x), Roles()])
    parameters = Parameters.of(flow, roles)
    hat = standardized(x, *parameters.running, epsilon(flow, parameters))
    note = "train mode does not normalize by the running averages after the batch has entered them"
    return batch_residual(apart(y, parameters.affine(hat), parameters.magnitude(hat)), note)


@batch_norm_law(
    "batch-norm/running-average-log-det", about=VOLUME, applies=averaged, source=APPENDIX
)
def running_average_log_det(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, the log-det has the variance that the output
    has.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    _, out, roles = flow.play([Train(), Run(flow.normalizer.call, x), Roles()])
    # The slope of the map is that of the output over the input, whatever the variance is.
    points, y = per_channel(x), per_channel(np.asarray(out.value))
    points, y = points - points.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    slope = np.abs((points * y).sum(1) / (points**2).sum(1)).astype(np.float64)
    scale = Parameters.of(flow, roles).scale
    if not (slope > 0).all() or not (np.abs(scale) > 1e-6).all():
        raise Undecidable("a weight is zero, and the map no bijection")
    positions = int(np.prod(flow.event_shape[1:]))
    expected, size = positions * np.log(slope).sum(), positions * (1 + np.abs(np.log(slope)).sum())
    ladj = reported(flow, out, len(x))
    note = "the log-det in train mode has another variance than the output"
    return batch_residual(
        np.abs(ladj - expected) / size,
        note,
        nats=float(np.abs(ladj - expected).max()),
        log_det=ladj[0],
        expected=expected,
    )


@batch_norm_law("batch-norm/running-average-gradient", applies=averaged, source=APPENDIX)
def running_average_gradient(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, the gradient passes through the statistics
    of the batch with the fraction with which they enter, and not into older averages.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    before, _, pulled, after = flow.play([Roles(), Train(), Pullback(x, dy), Roles()])
    old, parameters = Parameters.of(flow, before).running, Parameters.of(flow, after)
    new, eps = parameters.running, epsilon(flow, parameters)
    mean, _ = moments(x)
    way = mean - old.mean
    fraction = float((way * (new.mean - old.mean)).sum() / (way**2).sum())
    deviation, centered = np.sqrt(new.var + eps), x - wide(mean, x)
    dhat = wide(parameters.scale, x) * dy
    by_mean = -summed(dhat) / deviation
    by_var = -0.5 * summed(dhat * (x - wide(new.mean, x))) / deviation**3
    values, dx = x[:, 0].size, input_gradient(pulled, x)
    size = largest(dhat) / deviation + np.abs(by_mean) + np.abs(by_var) * largest(centered)
    gaps = []
    for freedom in (1, 0):
        through = wide(by_mean / values, x) + wide(2 * by_var / (values - freedom), x) * centered
        gaps.append(apart(dx, dhat / wide(deviation, x) + fraction * through, size))
    if flow.normalizer.evidence:
        # No one said that it follows the appendix: averages may as well be constants.
        gaps.append(apart(dx, dhat / wide(deviation, x), size))
    return batch_residual(
        smallest(gaps),
        "the gradient does not pass through the running averages as the batch entered them",
    )


@batch_norm_law(
    "batch-norm/running-average-limits",
    applies=averaged & takes_momentum,
    effort=3,
    source=APPENDIX,
)
def running_average_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, one end of the momentum makes it plain batch
    normalization and the other a fixed affine map by the old averages.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    parameters = Parameters.of(flow)
    eps = epsilon(flow, parameters)
    ends = [output(flow, x, Assign("momentum", end), Train()) for end in (0.0, 1.0)]

    def off(y: Array, mean: Array, var: Array) -> Array:
        hat = standardized(x, mean, var, eps)
        return apart(y, parameters.affine(hat), parameters.magnitude(hat))

    gaps = [
        np.stack([off(fixed, *parameters.running), off(plain, *moments(x, freedom))])
        for fixed, plain in (ends, ends[::-1])
        for freedom in (0, 1)
    ]
    note = "the ends of the momentum are not batch normalization and a fixed map"
    return batch_residual(smallest(gaps), note)
