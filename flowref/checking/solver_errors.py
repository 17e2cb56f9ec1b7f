"""Solver errors: residuals that fall as steps are refined are not bugs of the map."""

from __future__ import annotations

import contextlib

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.checking.orders import lags
from flowref.model import Batch, Subject

# Refinement factors of the steps, and the share to which a solver's error must fall.
REFINEMENTS, FALLEN_SHARE = (2, 4, 8, 16, 32), 0.15
WITHIN = "results differ by at most the stated accuracy of its solver"
# Perturbed parameters make fields so steep that no such number of steps suffices: there an error is the
# solver's if refinement changes it by this share.
CHANGED_SHARE = 0.1
FALLS = "it falls as its solver is refined: it is a solver error"
CUT_OFF = "it falls with more terms or steps: their number need not suffice for perturbed weights"
SILENT = "it cannot be measured with a refined solver"
# If one direction's error is this many times the other's, they take different steps. That is no
# violation, since both converge to the same flow, but it is reported.
UNEVEN_RATIO = 30.0
APART = (
    f"{FALLS}; nearly all of it comes from {{}}, which is far less accurate than {{}}: it takes fewer steps, one too few or "
    "too many, or simpler ones"
)
# Range of the ratio of errors, at twice the steps, that suggests first order.
FIRST_ORDER_RATIOS = (0.3, 0.75)
# An error unchanged in this many refinements does not fall.
UNCHANGED_REFINEMENTS = 2
# A log-det error per entry above this is not that of a usable solver.
GROSS_PER_ENTRY = 0.5
# A log-det has the opposite sign if it is within NEAR_SHARE of the negated value at all of at least
# ENOUGH_POINTS points whose value exceeds SMALLEST; with fewer points, as in a confirmation, within NEAR_SHARE_OF_FEW.
ENOUGH_POINTS, NEAR_SHARE, SMALLEST = 4, 0.05, 1e-3
NEAR_SHARE_OF_FEW = 1e-5
# (reported, expected) -> the sign with which they agree.
EXPECTED_SIGNS = {("reported", "autograd"): 1, ("inverse's log-det", "forward's log-det"): -1}
# A row that shows less than this share of its residual alone is measured in its batch.
SHOWN_ALONE_SHARE = 0.5
UNKNOWN = (
    "it may be a solver error, and no step count was found to refine its solver: add an attribute n_steps, or "
    "declare the accuracy, such as ?promises=log-det-tolerance=1e-3"
)


def solver_error_reason(measurement: Measurement, row: int) -> str:
    """Return why the residual of a row may be the error of a solver without stated accuracy, or ""
    if it is not.

    A stated accuracy is held against the object. Steps are refined by each of `REFINEMENTS`:

    ====================================================================  ==================
    the first that holds                                                  returns
    ====================================================================  ==================
    a call compared with itself differs within the stated accuracy        `WITHIN`
    steps cannot be refined or explain nothing; or the accuracy is        ""
    stated and parameters are given
    the residual is not finite                                            ""
    no refinement is known, and the accuracy is stated                    ""
    none is known; it is gross at given parameters, or of opposite sign   ""
    none is known                                                         `UNKNOWN`
    it falls as first order though values converge faster (`orders`)      ""
    it falls to `FALLEN_SHARE`, with an accuracy that is not stated              `FALLS`, `APART`
    it falls to `FALLEN_SHARE`: a series is cut off at perturbed parameters      `CUT_OFF`
    it changes by `CHANGED_SHARE` at perturbed parameters, accuracy not stated  `FALLS`, `APART`
    no refined solver can be measured at perturbed parameters             `SILENT`
    it stays the same `UNCHANGED_REFINEMENTS` times, refinements end, or a call raises    ""
    ====================================================================  ==================

    Perturbed parameters are those of ``measurement.moved``.
    """
    subject, law = measurement.subject, measurement.law
    stated = subject.certainty.log_det
    if law.echo is not None and measurement.size[row] <= stated * measurement.scale[row]:
        return WITHIN
    assumed = bool(subject.promises.get("assumed-accuracy"))
    # A truncated series must suffice for the given weights, but not for all.
    if subject.refined is None or not law.by_steps or not (assumed or measurement.moved):
        return ""
    with contextlib.suppress(Exception):  # refined calls may exceed the budget
        point, row, start = _batch_showing_row(measurement, row)
        if not np.isfinite(start):
            return ""
        stuck, seen = 0, False
        for times in REFINEMENTS:
            finer = subject.refined(times)
            if finer is None and not assumed:
                return ""
            if finer is None:
                gross = start > GROSS_PER_ENTRY * point.x[0].size and not measurement.moved
                return "" if gross or _sign_is_flipped(measurement) else UNKNOWN
            size = _row_residual(measurement, point, row, finer)
            if not np.isfinite(size):  # it is silent there
                continue
            seen = True
            slow = (
                times == REFINEMENTS[0]
                and FIRST_ORDER_RATIOS[0] * start <= size <= FIRST_ORDER_RATIOS[1] * start
            )
            if assumed and slow and lags(measurement):
                return ""
            if size <= FALLEN_SHARE * start:
                return _fallen(subject, finer, point) if assumed else CUT_OFF
            if assumed and measurement.moved and abs(size - start) > CHANGED_SHARE * start:
                return _fallen(subject, finer, point)
            stuck += abs(size - start) <= CHANGED_SHARE * start
            if (
                stuck == UNCHANGED_REFINEMENTS
            ):  # each further refinement takes longer than all before it
                break
        if assumed and measurement.moved and not seen:
            return SILENT
    return ""


def _sign_is_flipped(measurement: Measurement) -> bool:
    """Whether the reported value is the expected one with the opposite sign at all points of the
    batch.
    """
    observed = measurement.law.measure(measurement.subject, measurement.batch).observed
    found = next((pair for pair in EXPECTED_SIGNS if all(name in observed for name in pair)), None)
    if found is None:
        return False
    got, want = (np.asarray(observed[name]).reshape(-1) for name in found)
    want = want * EXPECTED_SIGNS[found]
    telling = np.isfinite(got) & np.isfinite(want) & (np.abs(want) > SMALLEST)
    sums, sizes = np.abs(got + want)[telling], np.abs(want)[telling]
    near = NEAR_SHARE if len(sums) >= ENOUGH_POINTS else NEAR_SHARE_OF_FEW
    return len(sums) > 0 and bool((sums <= near * sizes).all())


def _fallen(subject: Subject, finer: Subject, batch: Batch) -> str:
    """A phrase that the error is due to steps, and in which direction if the other one's is far
    smaller; both are compared on the data side.
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
    return APART.format(worse, better) if sizes[worse] > UNEVEN_RATIO * sizes[better] else FALLS


def _batch_showing_row(measurement: Measurement, row: int) -> tuple[Batch, int, float]:
    """A batch that shows the residual of a row, the row's index in it, and the residual: the row
    alone, or the whole batch if the residual depends on the others, as with adaptive steps.
    """
    subject, batch = measurement.subject, measurement.batch
    alone = batch.rows(slice(row, row + 1))
    start = _row_residual(measurement, alone, 0, subject)
    shown = np.isfinite(start) and start >= SHOWN_ALONE_SHARE * np.abs(measurement.size[row])
    if len(batch.x) == 1 or shown:
        return alone, 0, start
    return batch, row, _row_residual(measurement, batch, row, subject)


def _row_residual(measurement: Measurement, batch: Batch, row: int, subject: Subject) -> float:
    """The residual of the law at a row of a batch; infinite if it is exempt."""
    residual = measurement.law.measure(subject, batch)
    if residual.silent[row]:
        return np.inf
    return float(residual.per_row()[row])
