"""Laws of batch normalization as a layer of a flow: log-determinants and inverses."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.layer import affine, channelled
from flowref.laws.batch_norm.oracle import (
    Held,
    Steps,
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    normalizer_law,
    ordinary,
    play,
    spec,
    told,
)
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import (
    ADVICE,
    BOUND,
    EXACT,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
)
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Eval, Normalize, Pullback, Roles, Run, Train

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.7"
OPPOSITE = {"forward": "inverse", "inverse": "forward"}
# The largest batch whose whole Jacobian is taken, in entries.
ENTRIES = 64
# What the log-det of the batch map may differ from the sum of those reported, per sample, in nats.
NATS = 1e-3


def layer(flow: Flow) -> str | None:
    """A flow layer whose weight and bias are known."""
    if flow.inverse is None:
        return "it is no layer of a flow"
    return channelled(flow) or affine(flow)


def tracked_layer(flow: Flow) -> str | None:
    """The same with running statistics."""
    if not {"running_mean", "running_var"} <= set(spec(flow).roles):
        return "it keeps no running statistics under a known name"
    return layer(flow)


def log_dets(flow: Flow, out: Mapped, rows: int) -> Array:
    """The log-det of each row of a call that normalizes."""
    return reported(flow, out, rows)


def log_det_of(flow: Flow, known: Held, var: Array, eps: float) -> tuple[float, float]:
    r"""$S \sum_c (\log|w_c| - \frac12 \log(v_c + \epsilon))$ for events of S positions, and the
    magnitude of its terms.
    """
    positions = int(np.prod(flow.event_shape[1:]))
    with np.errstate(all="ignore"):
        logs = np.stack([np.log(np.abs(known.scale(channels(flow)))), -0.5 * np.log(var + eps)])
    return float(positions * logs.sum()), float(positions * np.abs(logs).sum()) + positions


@normalizer_law(
    "batch-norm/log-det",
    former="normalisation/log-det",
    applies=tracked_layer,
    effort=4,
    source=DINH,
)
def log_det(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In eval mode the log-det is $S \sum_c (\log|w_c| - \frac12 \log(v_c + \epsilon))$ for events
    of S positions, the same for every sample.
    """
    x = drawn(flow, np.random.default_rng(batch.seed), 5)
    roles, _, out = play(flow, [Roles(), Eval(), Run(spec(flow).call, x)])
    known = held(roles)
    assert known.running_var is not None
    got = log_dets(flow, out, len(x))
    expected, size = log_det_of(flow, known, known.running_var, epsilon(flow, known))
    if not np.isfinite(expected):
        raise Undecidable("a weight is zero, and the map no bijection")
    return told(
        np.abs(got - expected) / size,
        "the log-det is not that of the map",
        log_det=got[0],
        expected=expected,
    )


@normalizer_law(
    "batch-norm/regular-in-eval",
    former="normalisation/regular-in-eval",
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=(0.0,),
    source="normalization over the features of one sample (layer or instance norm) loses its mean and scale: it has no inverse",
)
def regular_in_eval(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode samples that differ in their mean or in their scale have different outputs."""
    x = ordinary(flow, np.random.default_rng(batch.seed), 3)
    known = held(play(flow, [Roles()])[0])
    if not (np.abs(known.scale(channels(flow))) > 1e-3).all():
        raise Undecidable("a weight is too small to tell")
    _, y, shifted, scaled = play(
        flow, [Eval(), *(Normalize(each) for each in (x, x + 1.0, 2.0 * x))]
    )
    size = largest(y).max() + 1e-300
    lost = [
        name
        for name, other in (("mean", shifted), ("scale", scaled))
        if np.abs(other - y).max() <= 1e-9 * size
    ]
    return flags(bool(lost), 1, f"the output does not tell the {' or the '.join(lost)} of a sample")


@normalizer_law(
    "batch-norm/train-inverse-policy",
    former="normalisation/train-inverse-policy",
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
    x = drawn(flow, np.random.default_rng(batch.seed))
    which = spec(flow).call
    y = play(flow, [Train(), Normalize(x)])[-1]
    steps: Steps = [Train(), Normalize(x), Run(OPPOSITE[which], y)]
    played, error = attempt(play, flow, steps)
    if error:
        return told(np.zeros(channels(flow)))
    back = np.asarray(played[-1].value, dtype=np.float64)
    known = held(play(flow, [Roles()])[0])
    if not (np.abs(known.scale(channels(flow))) > 1e-6).all():
        raise Undecidable("a weight is zero, and the map no bijection")
    note = "in train mode the inverse uses other statistics than the call that normalized"
    return told(apart(back, x, largest(x)), note)


@normalizer_law(
    "batch-norm/inverse-keeps-statistics",
    former="normalisation/inverse-keeps-statistics",
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=(0.0,),
    source="statistics belong to the data that is normalized; a step that also inverts must not count its batch twice",
)
def inverse_keeps_statistics(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the call that undoes normalization leaves the running statistics as they are."""
    x = drawn(flow, np.random.default_rng(batch.seed))
    which = OPPOSITE[spec(flow).call]
    played, error = attempt(play, flow, [Train(), Normalize(x), Roles(), Run(which, x), Roles()])
    if error:
        raise Unsupported(f"its {which} is refused in train mode")
    before, after = held(played[2]), held(played[4])
    assert before.running_mean is not None
    assert after.running_mean is not None
    assert before.running_var is not None
    assert after.running_var is not None
    same = np.array_equal(before.running_mean, after.running_mean)
    same = same and np.array_equal(before.running_var, after.running_var)
    return flags(not same, 1, f"its {which} moved the running statistics")


def small(flow: Flow) -> str | None:
    """A layer with few entries per event, since the Jacobian of a whole batch is taken."""
    if int(np.prod(flow.event_shape)) * 3 > ENTRIES:
        return "its events are too large for the Jacobian of a whole batch"
    return layer(flow)


@normalizer_law(
    "batch-norm/batch-jacobian",
    former="normalisation/batch-jacobian",
    force=ADVICE,
    tolerance=BOUND,
    applies=small,
    effort=1,
    scales=(0.0,),
    source="the log-det of normalization with its statistics held fixed is no likelihood of the batch; the gap shrinks as the "
    "batch enters its statistics with a smaller weight",
)
def batch_jacobian(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the log-dets of a batch add up to that of the map of the whole batch, so that
    they are likelihoods.
    """
    x = ordinary(flow, np.random.default_rng(batch.seed), 3)
    out = play(flow, [Train(), Run(spec(flow).call, x)])[-1]
    total = float(log_dets(flow, out, len(x)).sum())
    rows = []
    for place in range(x.size):
        cotangent = np.zeros(x.size)
        cotangent[place] = 1.0
        pulled = play(flow, [Train(), Pullback(x, cotangent.reshape(x.shape))])[-1]["x"]
        rows.append(
            np.zeros(x.size) if pulled is None else np.asarray(pulled, dtype=np.float64).reshape(-1)
        )
    singular = np.linalg.svd(np.stack(rows), compute_uv=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    with np.errstate(all="ignore"):
        truth = float(np.log(singular).sum()) if rank == x.size else -np.inf
    gap = abs(total - truth) / len(x)
    note = (
        f"the map of the batch has rank {rank} of {x.size}"
        if rank < x.size
        else "they are off from that of the batch map"
    )
    seen = {"sum of log-dets": np.array([total]), "log-det of the batch map": np.array([truth])}
    return Residual(np.array([[gap]]), allowed=NATS, observed=seen, note=note if gap > NATS else "")
