"""Errors of solvers: what falls as steps are halved is theirs, and no error of the map."""

from __future__ import annotations

import contextlib

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.checking.orders import lags
from flowref.model import Batch, Subject

# So many times the steps are tried, and to which share of itself an error is to fall.
TIMES, SHARE = (2, 4, 8, 16, 32), 0.15
WITHIN = "results of its solver differ by at most its stated accuracy"
# Moved parameters make fields so steep that no such number of steps suffices: there an error is the
# solver's of which more steps change so much.
CHANGED = 0.1
FALLS = "it falls with the steps of its solver, and is the error of these"
CUT_OFF = "it falls with the terms or steps that it takes, which need not be enough for weights that were moved"
SILENT = "nothing of it can be measured where its solver takes more steps"
# Where an error is so many times the other way's, the ways do not take the same steps: nobody is accused
# of that, since both lead to the same flow, but it is said.
UNEVEN = 30.0
APART = (
    f"{FALLS}; nearly all of it is of {{}}, which is far less accurate than {{}}: it takes fewer steps, one too few or "
    "too many, or simpler ones"
)
# Twice the steps leave between these shares of an error that may be of first order.
HALVED = (0.3, 0.75)
# What moves no more than that in so many tries does not fall.
STUCK = 2
# Beyond that, beside the number of entries, no error is that of a solver that anybody would use.
GROSS = 0.5
# A log-det is the right one with the sign turned where, of so many points at least, it is so near to that at all
# whose log-det is none of the smallest: no error of steps is twice the number wherever one looks. Of fewer
# points, as where an accusation is confirmed, it has to be as near as no chance brings it.
TOLD, NEAR, SMALLEST = 4, 0.05, 1e-3
NO_CHANCE = 1e-5
# What is reported, what it is held to, and with which sign.
HELD_TO = {("reported", "autograd"): 1, ("inverse's log-det", "forward's log-det"): -1}
# A row that shows less than this share of its residual by itself is measured among the others.
ALONE = 0.5
UNKNOWN = (
    "it may be the error of its solver, and nothing shows how that takes more steps: an attribute n_steps does, "
    "or say ?promises=log-det-tolerance=1e-3, or what its accuracy is"
)


def excused(measurement: Measurement, row: int) -> str:
    """Why the residual of a row may be the error of a solver of which nobody states how accurate it
    is: it falls to a small share of itself as the solver takes more steps, or is no gross one and
    nothing tells how it takes more. Empty where it is no such error. What somebody states is held
    against the object whatever falls; within that a call that is compared with itself may differ, since
    the rows of a batch may share their steps. Where parameters were moved, what is no solver may take terms
    of a series, or steps of an iteration, that are not enough for such weights. Nor is an error of first order that
    of a solver whose values settle faster.
    """
    subject, law = measurement.subject, measurement.law
    stated = subject.certainty.log_det
    if law.echo is not None and measurement.size[row] <= stated * measurement.scale[row]:
        return WITHIN
    assumed = bool(subject.promises.get("assumed-accuracy"))
    # A series that is cut off is long enough for weights as they are given, or it is wrong; not for all.
    if subject.refined is None or not law.by_steps or not (assumed or measurement.moved):
        return ""
    with contextlib.suppress(Exception):  # more steps may take more than there is
        point, row, start = _batch_showing_row(measurement, row)
        if not np.isfinite(start):
            return ""
        stuck, seen = 0, False
        for times in TIMES:
            finer = subject.refined(times)
            if finer is None and not assumed:
                return ""
            if finer is None:
                gross = start > GROSS * point.x[0].size and not measurement.moved
                return "" if gross or _sign_is_flipped(measurement) else UNKNOWN
            size = _row_residual(measurement, point, row, finer)
            if not np.isfinite(size):  # it is silent there
                continue
            seen = True
            slow = times == TIMES[0] and HALVED[0] * start <= size <= HALVED[1] * start
            if assumed and slow and lags(measurement):
                return ""
            if size <= SHARE * start:
                return _fallen(subject, finer, point) if assumed else CUT_OFF
            if assumed and measurement.moved and abs(size - start) > CHANGED * start:
                return _fallen(subject, finer, point)
            stuck += abs(size - start) <= CHANGED * start
            if stuck == STUCK:  # each further try takes longer than all before it
                break
        if assumed and measurement.moved and not seen:
            return SILENT
    return ""


def _sign_is_flipped(measurement: Measurement) -> bool:
    """Whether what is reported is what it is held to with the sign turned, at all points of the batch."""
    observed = measurement.law.measure(measurement.subject, measurement.batch).observed
    found = next((pair for pair in HELD_TO if all(name in observed for name in pair)), None)
    if found is None:
        return False
    got, want = (np.asarray(observed[name]).reshape(-1) for name in found)
    want = want * HELD_TO[found]
    telling = np.isfinite(got) & np.isfinite(want) & (np.abs(want) > SMALLEST)
    sums, sizes = np.abs(got + want)[telling], np.abs(want)[telling]
    near = NEAR if len(sums) >= TOLD else NO_CHANCE
    return len(sums) > 0 and bool((sums <= near * sizes).all())


def _fallen(subject: Subject, finer: Subject, batch: Batch) -> str:
    """That an error is of steps, and of which way, where the other way's is far smaller. Both are seen
    among the data, since what is small among latents may be large there.
    """
    forward, inverse = (finer.calls.get(which) for which in ("forward", "inverse"))
    if forward is None or inverse is None:
        return FALLS
    x, context = batch.x, batch.context
    z = subject.calls["forward"](x, context).value
    back = inverse(z, context).value
    errors = {
        "forward": back - inverse(forward(x, context).value, context).value,
        "inverse": back - subject.calls["inverse"](z, context).value,
    }
    sizes = {which: float(np.abs(error).max(initial=0.0)) for which, error in errors.items()}
    worse, better = sorted(sizes, key=lambda which: -sizes[which])
    return APART.format(worse, better) if sizes[worse] > UNEVEN * sizes[better] else FALLS


def _batch_showing_row(measurement: Measurement, row: int) -> tuple[Batch, int, float]:
    """A batch that shows the residual of a row, the row's place in it, and its size: the row alone, or
    the whole batch where it takes the others, as of an adaptive solver that chooses steps for all rows, or
    where the law is silent of the row alone.
    """
    subject, batch = measurement.subject, measurement.batch
    alone = batch.rows(slice(row, row + 1))
    start = _row_residual(measurement, alone, 0, subject)
    told = np.isfinite(start) and start >= ALONE * np.abs(measurement.size[row])
    if len(batch.x) == 1 or told:
        return alone, 0, start
    return batch, row, _row_residual(measurement, batch, row, subject)


def _row_residual(measurement: Measurement, batch: Batch, row: int, subject: Subject) -> float:
    """The residual of the law at a row of a batch; infinite where it is silent."""
    residual = measurement.law.measure(subject, batch)
    if residual.silent[row]:
        return np.inf
    return float(residual.per_row()[row])
