"""Laws of flow layers that normalize by running averages in train mode, as Real NVP does."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.flow import log_dets, tracked_layer
from flowref.laws.batch_norm.layer import effective
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    moments,
    normalizer_law,
    per_channel,
    play,
    single,
    spec,
    standardized,
    summed,
    told,
    wide,
)
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Assign, Normalize, Pullback, Roles, Run, Train

APPENDIX = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E"


def averaged(flow: Flow) -> str | None:
    """Running averages, which the batch has entered, are what train mode normalizes by."""
    if spec(flow).statistics != "running":
        return "in train mode it normalizes by the statistics of the batch alone"
    return tracked_layer(flow)


@normalizer_law(
    "batch-norm/running-average-used",
    former="normalisation/running-average-used",
    applies=averaged,
    effort=4,
    source=APPENDIX,
)
def running_average_used(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, these are the averages that the batch has
    entered already.
    """
    x, count = drawn(flow, np.random.default_rng(batch.seed)), channels(flow)
    _, y, roles = play(flow, [Train(), Normalize(x), Roles()])
    known = held(roles)
    assert known.running_mean is not None
    assert known.running_var is not None
    weight, bias = known.scale(count), known.shift(count)
    hat = standardized(x, known.running_mean, known.running_var, epsilon(flow, known))
    size = np.abs(weight) * (1 + largest(hat)) + np.abs(bias)
    note = "train mode does not normalize by the running averages after the batch has entered them"
    return told(apart(y, wide(weight, x) * hat + wide(bias, x), size), note)


@normalizer_law(
    "batch-norm/running-average-log-det",
    former="normalisation/running-average-log-det",
    applies=averaged,
    effort=4,
    source=APPENDIX,
)
def running_average_log_det(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, the log-det has the variance that the output
    has.
    """
    x = drawn(flow, np.random.default_rng(batch.seed))
    _, out, roles = play(flow, [Train(), Run(spec(flow).call, x), Roles()])
    known, y = held(roles), per_channel(np.asarray(out.value))
    # The slope of the map is that of the output over the input, whatever the variance is.
    points = per_channel(x)
    points, y = points - points.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    slope = np.abs((points * y).sum(1) / (points**2).sum(1)).astype(np.float64)
    if not (slope > 0).all() or not (np.abs(known.scale(channels(flow))) > 1e-6).all():
        raise Undecidable("a weight is zero, and the map no bijection")
    positions = int(np.prod(flow.event_shape[1:]))
    expected, size = positions * np.log(slope).sum(), positions * (1 + np.abs(np.log(slope)).sum())
    got = log_dets(flow, out, len(x))
    note = "the log-det in train mode has another variance than the output"
    return told(np.abs(got - expected) / size, note, log_det=got[0], expected=expected)


@normalizer_law(
    "batch-norm/running-average-gradient",
    former="normalisation/running-average-gradient",
    applies=averaged,
    effort=4,
    source=APPENDIX,
)
def running_average_gradient(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, the gradient passes through the statistics
    of the batch with the fraction with which they enter, and not into older averages.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    x = drawn(flow, rng)
    dy = single(rng.standard_normal(x.shape))
    before, _, out, after = play(flow, [Roles(), Train(), Pullback(x, dy), Roles()])
    old, new = held(before), held(after)
    assert old.running_mean is not None
    assert new.running_mean is not None
    assert old.running_var is not None
    assert new.running_var is not None
    weight, eps = new.scale(count), epsilon(flow, new)
    mean, _ = moments(x)
    way = mean - old.running_mean
    part = float((way * (new.running_mean - old.running_mean)).sum() / (way**2).sum())
    deviation, centered = np.sqrt(new.running_var + eps), x - wide(mean, x)
    dhat = wide(weight, x) * dy
    by_mean = -summed(dhat) / deviation
    by_var = -0.5 * summed(dhat * (x - wide(new.running_mean, x))) / deviation**3
    values = x[:, 0].size
    dx = np.asarray(out["x"], dtype=np.float64) if out["x"] is not None else np.zeros_like(x)
    size = largest(dhat) / deviation + np.abs(by_mean) + np.abs(by_var) * largest(centered)
    found = []
    for freedom in (1, 0):
        through = wide(by_mean / values, x) + wide(2 * by_var / (values - freedom), x) * centered
        found.append(apart(dx, dhat / wide(deviation, x) + part * through, size))
    best = min(found, key=lambda row: float(row.max()))
    return told(
        best, "the gradient does not pass through the running averages as the batch entered them"
    )


def limited(flow: Flow) -> str | None:
    """Running averages whose momentum can be set."""
    return averaged(flow) or effective("momentum", (0.25, 0.5))(flow)


@normalizer_law(
    "batch-norm/running-average-limits",
    former="normalisation/running-average-limits",
    applies=limited,
    effort=3,
    source=APPENDIX,
)
def running_average_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, one end of the momentum makes it plain batch
    normalization and the other a fixed affine map by the old averages.
    """
    x, count = drawn(flow, np.random.default_rng(batch.seed)), channels(flow)
    known = held(play(flow, [Roles()])[0])
    assert known.running_mean is not None
    assert known.running_var is not None
    eps, weight, bias = epsilon(flow, known), known.scale(count), known.shift(count)
    ends = [play(flow, [Assign("momentum", m), Train(), Normalize(x)])[-1] for m in (0.0, 1.0)]

    def off(y: Array, mean: Array, var: Array) -> Array:
        hat = standardized(x, mean, var, eps)
        return apart(
            y,
            wide(weight, x) * hat + wide(bias, x),
            np.abs(weight) * (1 + largest(hat)) + np.abs(bias),
        )

    fixed = (known.running_mean, known.running_var)
    found = [
        np.stack([off(still, *fixed), off(plain, *moments(x, freedom))])
        for still, plain in (tuple(ends), tuple(ends[::-1]))
        for freedom in (0, 1)
    ]
    best = min(found, key=lambda rows: float(np.nan_to_num(rows, nan=np.inf).max()))
    return told(best, "the ends of the momentum are not batch normalization and a fixed map")
