"""Laws of batch normalization as a layer of a flow: log-determinants and inverses."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import apart, largest
from flowref.laws.batch_norm.conditions import affine, channelled, keeps_statistics
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    epsilon,
    input_gradient,
    normal_batch,
    output,
    random_batch,
)
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import (
    ADVICE,
    BOUND,
    EXACT,
    OPPOSITE,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    requires,
)
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, Pullback, Roles, Run, Train

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.7"
# The largest batch whose whole Jacobian is taken, in entries.
ENTRIES = 64
# What the log-det of the batch map may differ from the sum of those reported, per sample, in nats.
NATS = 1e-3


@requires("it is no layer of a flow")
def has_inverse(flow: BatchNormal) -> bool:
    """Layers of flows have an inverse."""
    return "inverse" in flow.calls


layer = has_inverse & channelled & affine
tracked_layer = keeps_statistics & layer


@batch_norm_law("batch-norm/log-det", about=VOLUME, applies=tracked_layer, source=DINH)
def log_det(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In eval mode the log-det is $S \sum_c (\log|w_c| - \frac12 \log(v_c + \epsilon))$ for events
    of S positions, the same for every sample.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed), 5)
    roles, _, out = flow.play([Roles(), Eval(), Run(flow.normalizer.call, x)])
    parameters = Parameters.of(flow, roles)
    ladj = reported(flow, out, len(x))
    positions = int(np.prod(flow.event_shape[1:]))
    var, eps = parameters.running.var, epsilon(flow, parameters)
    with np.errstate(all="ignore"):
        logs = np.stack([np.log(np.abs(parameters.scale)), -0.5 * np.log(var + eps)])
    expected = float(positions * logs.sum())
    size = float(positions * np.abs(logs).sum()) + positions
    if not np.isfinite(expected):
        raise Undecidable("a weight is zero, and the map no bijection")
    return batch_residual(
        np.abs(ladj - expected) / size,
        "the log-det is not that of the map",
        nats=float(np.abs(ladj - expected).max()),
        log_det=ladj[0],
        expected=expected,
    )


@batch_norm_law(
    "batch-norm/regular-in-eval",
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=(0.0,),
    source="normalization over the features of one sample (layer or instance norm) loses its mean and scale: it has no inverse",
)
def regular_in_eval(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode samples that differ in their mean or in their scale have different outputs."""
    x = normal_batch(flow, np.random.default_rng(batch.seed), 3)
    if not (np.abs(Parameters.of(flow).scale) > 1e-3).all():
        raise Undecidable("a weight is too small to decide")
    _, y, shifted, scaled = flow.play(
        [Eval(), Normalize(x), Normalize(x + 1.0), Normalize(2.0 * x)]
    )
    size = largest(y).max() + 1e-300
    lost = [
        name
        for name, other in (("mean", shifted), ("scale", scaled))
        if np.abs(other - y).max() <= 1e-9 * size
    ]
    return flags(bool(lost), 1, f"the output does not tell the {' or the '.join(lost)} of a sample")


@batch_norm_law(
    "batch-norm/train-inverse-policy",
    force=ADVICE,
    applies=layer,
    effort=2,
    scales=(0.0, 0.3),
    source="the statistics of a batch are not known to the inverse; libraries refuse it in train mode or document what it is",
)
def train_inverse_policy(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the call that undoes normalization raises an error, or gives back the batch
    that was normalized.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    y = output(flow, x, Train())
    undo = Run(OPPOSITE[flow.normalizer.call], y)
    life, error = attempt(flow.play, [Train(), Normalize(x), undo])
    if error:
        return batch_residual(np.zeros(channels(flow)))
    back = np.asarray(life[-1].value, dtype=np.float64)
    if not (np.abs(Parameters.of(flow).scale) > 1e-6).all():
        raise Undecidable("a weight is zero, and the map no bijection")
    note = "in train mode the inverse uses other statistics than the call that normalized"
    return batch_residual(apart(back, x, largest(x)), note)


@batch_norm_law(
    "batch-norm/inverse-keeps-statistics",
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=(0.0,),
    source="statistics belong to the data that is normalized; a step that also inverts must not count its batch twice",
)
def inverse_keeps_statistics(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the call that undoes normalization leaves the running statistics as they are."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    which = OPPOSITE[flow.normalizer.call]
    life, error = attempt(flow.play, [Train(), Normalize(x), Roles(), Run(which, x), Roles()])
    if error:
        raise Unsupported(f"its {which} is refused in train mode")
    before, after = (Parameters.of(flow, roles).running for roles in (life[2], life[4]))
    same = np.array_equal(before.mean, after.mean) and np.array_equal(before.var, after.var)
    return flags(not same, 1, f"its {which} moved the running statistics")


@requires("its events are too large for the Jacobian of a whole batch", waits=True)
def has_few_entries(flow: BatchNormal) -> bool:
    """Few entries per event, since the Jacobian of a whole batch is taken."""
    return int(np.prod(flow.event_shape)) * 3 <= ENTRIES


@batch_norm_law(
    "batch-norm/batch-jacobian",
    force=ADVICE,
    tolerance=BOUND,
    applies=has_few_entries & layer,
    effort=1,
    scales=(0.0,),
    source="the log-det of normalization with its statistics held fixed is no likelihood of the batch; the gap shrinks as the "
    "batch enters its statistics with a smaller weight",
)
def batch_jacobian(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the log-dets of a batch add up to that of the map of the whole batch, so that
    they are likelihoods.
    """
    x = normal_batch(flow, np.random.default_rng(batch.seed), 3)
    out = flow.play([Train(), Run(flow.normalizer.call, x)])[-1]
    total = float(reported(flow, out, len(x)).sum())
    singular = np.linalg.svd(jacobian_of_batch(flow, x), compute_uv=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    with np.errstate(all="ignore"):
        truth = float(np.log(singular).sum()) if rank == x.size else -np.inf
    gap = abs(total - truth) / len(x)
    if not gap > NATS:
        note = ""
    elif rank < x.size:
        note = f"the map of the batch has rank {rank} of {x.size}"
    else:
        note = "they are off from that of the batch map"
    observed = {
        "sum of log-dets": np.array([total]),
        "log-det of the batch map": np.array([truth]),
    }
    return Residual(np.array([[gap]]), allowed=NATS, observed=observed, note=note)


def jacobian_of_batch(flow: BatchNormal, x: Array) -> Array:
    """The Jacobian of the train-mode map of a whole batch, `(entries, entries)`."""
    rows = []
    for cotangent in np.eye(x.size):
        pulled = flow.play([Train(), Pullback(x, cotangent.reshape(x.shape))])[-1]
        rows.append(input_gradient(pulled, x).reshape(-1))
    return np.stack(rows)
