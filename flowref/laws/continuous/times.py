"""Maps over an interval of time: parts of the time compose, and intermediate states are those of
the parts.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.oracles import log_det_tolerance
from flowref.laws.bijection.roundtrip import inverse_tolerance
from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.requirements import not_estimator
from flowref.model import Array, Batch, Mapped, Residual, law, requires
from flowref.model.abilities import Flow, Staged, Timed

# Where the time is cut, as a share of it, and the times of intermediate states.
CUT, TIMES = 0.37, (0.0, 0.37, 0.8, 1.0)
# The second part amplifies the error of the first, and each call has its own.
GROWN = 4.0
SOURCE = "flows of differential equations: Chen et al., Neural ODEs (arXiv:1806.07366)"


@requires("it is not known to integrate: it takes no steps, and states no log_det_tolerance")
def integrates(flow: Flow) -> bool:
    """Its log-det is an integral with some accuracy."""
    return flow.certainty.log_det > 0


@law(
    "composition/in-time",
    key="continuous/times-add-up",
    effort=2,
    size=16,
    source=SOURCE,
    applies=integrates & not_estimator,
)
def times_add_up(flow: Timed, batch: Batch) -> Residual:
    r"""The map over the whole time is the composition of those over its parts, $f_{0,T} = f_{s,T}
    \circ f_{0,s}$, and their log-dets add up.

    For maps that integrate; a closed form of two times need not be a flow.
    """
    whole = flow.forward(batch.x, batch.context)
    first = flow.between(batch.x, batch.context, 0.0, CUT)
    second = flow.between(first.value, batch.context, CUT, 1.0)
    gap, scale = _difference_or_inf(second.value, whole.value), rows_max(whole.value)
    allowed = _slack(flow, first.value, second, batch.context)
    usable = finite_rows(whole.value, first.value, second.value)
    observed = {"the whole time": whole.value, "one part after the other": second.value}
    if whole.ladj is not None and first.ladj is not None and second.ladj is not None:
        rows = len(batch.x)
        log_det, *parts = (reported(flow, out, rows) for out in (whole, first, second))
        gap = np.concatenate([gap.reshape(rows, -1), (parts[0] + parts[1] - log_det)[:, None]], 1)
        scale = np.maximum(scale, 4 + np.nan_to_num(np.abs(log_det), posinf=0.0))
        allowed = np.maximum(allowed, 2 * log_det_tolerance(flow, log_det))
        usable &= finite_rows(log_det, *parts)
        observed |= {"log-det": log_det, "log-dets of the parts": np.stack(parts, 1)}
    return Residual(gap, scale=scale, allowed=allowed, decidable=usable, observed=observed)


@law(
    "composition/in-time[states]",
    key="continuous/states-on-the-way",
    version=2,
    effort=2,
    size=16,
    source=SOURCE,
    applies=integrates & not_estimator,
)
def states_on_the_way(flow: Staged, batch: Batch) -> Residual:
    """Of the states that a map returns for several times the first is x, the last is f(x), and
    each is the map over the time until then; likewise for log-dets at several times.
    """
    rows = len(batch.x)
    found = flow.trajectory(batch.x, batch.context, TIMES)
    states = np.asarray(found.value, dtype=np.float64)
    ends = [
        flow.between(batch.x, batch.context, 0.0, time) if 0 < time < 1 else None for time in TIMES
    ]
    last = flow.forward(batch.x, batch.context)
    ends[-1] = last
    values = np.stack([batch.x if end is None else end.value for end in ends])
    if states.shape != values.shape:
        return Residual(
            np.full(rows, np.inf), note=f"for {len(TIMES)} times states are of shape {states.shape}"
        )
    gap = np.moveaxis(states - values, 0, 1).reshape(rows, len(TIMES), -1)
    scale = rows_max(np.moveaxis(values, 0, 1))
    allowed = GROWN * inverse_tolerance(flow, last.value)
    usable = finite_rows(*values)
    observed = {"states": np.moveaxis(states, 0, 1), "over parts of the time": last.value}
    if found.ladj is not None and all(end is None or end.ladj is not None for end in ends):
        sign = -1.0 if flow.promises.get("ladj") == "inverse" else 1.0
        log_dets = sign * np.asarray(found.ladj, dtype=np.float64).T
        parts = [np.zeros(rows) if end is None else reported(flow, end, rows) for end in ends]
        apart = log_dets - np.stack(parts, 1)
        # The tolerance of a log-det does not apply to states.
        room = 2 * log_det_tolerance(flow, parts[-1])[:, None]
        beyond = np.sign(apart) * np.maximum(np.abs(apart) - room, 0.0)
        gap = np.concatenate([gap, beyond[..., None]], 2)
        scale = np.maximum(scale, 4 + np.nan_to_num(np.abs(parts[-1]), posinf=0.0))
        usable &= finite_rows(*parts)
        observed |= {"log-dets": log_dets, "log-dets over parts of the time": np.stack(parts, 1)}
    wrong = np.nan_to_num(np.abs(gap)).max((0, 2))
    return Residual(
        gap.reshape(rows, -1),
        scale=scale,
        allowed=allowed,
        decidable=usable,
        observed=observed,
        note=f"farthest off is the state at {TIMES[int(wrong.argmax())]:g} of the time",
    )


def _difference_or_inf(one: Array, other: Array) -> Array:
    same = np.shape(one) == np.shape(other)
    return np.asarray(one - other) if same else np.full(np.shape(other), np.inf)


def _slack(flow: Timed, middle: Array, end: Mapped, context: Array | None) -> Array:
    """The effect of solver errors on the end: that of an error at the intermediate time through
    the second part, twice.
    """
    tolerance = inverse_tolerance(flow, middle)
    if not tolerance.any():
        return tolerance
    step = tolerance.reshape(-1, *[1] * (middle.ndim - 1))
    moved = [
        rows_max(flow.between(middle + sign * step, context, CUT, 1.0).value - end.value)
        for sign in (1.0, -1.0)
    ]
    return np.asarray(GROWN * (np.nan_to_num(np.maximum(*moved)) + tolerance))
