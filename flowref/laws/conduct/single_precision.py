"""Accuracy in the precisions in which flows are run, and avoidable loss of digits."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import rows_max
from flowref.laws.common.cases import MANY_AWAY, MANY_OFTEN, records_on_request
from flowref.laws.common.digits import (
    HALVES,
    LARGEST,
    ORDINARY,
    PrecisionComparison,
    allowances,
    compare_precision,
    distance,
    in_float32,
    rounding_sensitivity,
)
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, listed_names, row_log_dets
from flowref.laws.common.probes import MAPS, probes, tolerance_of
from flowref.laws.common.requirements import in_double, not_estimator
from flowref.model import (
    ADVICE,
    AWAY,
    BOUND,
    EXACT,
    GIVEN,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
    per_point,
    requires,
)
from flowref.model.abilities import Bijection, Composite, Flow, offers

# Beyond this, saturated functions amplify errors that no input perturbation shows; for this many
# entries, some ordinary ones lie farther out.
REACH, LARGE, FARTHER = 8.0, 512, 16.0
# The allowed error of a sum in nats, and relative to its size.
SUM, SHARE = 1e-3, 2.0**-18


@requires("it is a composite; its parts are judged on their own")
def is_single_map(flow: Flow) -> bool:
    """For a composition, rounding between its parts is no instability."""
    return not offers(flow, Composite)


@requires("it is promised to be used in double precision alone")
def used_in_single(flow: Flow) -> bool:
    """It is run in single precision, as by default."""
    return not flow.promises.get("double-only")


# Advice: an unstable formula is correct mathematics, and where it saturates no bound distinguishes
# it from a saturating map.
@law(
    "dtype/accurate",
    key="hygiene/float32-agrees",
    force=ADVICE,
    tolerance=BOUND,
    effort=4,
    size=16,
    scales=NEARBY,
    applies=in_double & is_single_map & not_estimator,
    source="Higham, Accuracy and Stability of Numerical Algorithms, section 1.5: mixed forward-backward stability",
    pointwise=True,
    version=2,
    cases=(MANY_OFTEN,),
)
def float32_agrees(flow: Bijection, batch: Batch) -> Residual:
    """In float32 the error is at most 64 times the effect of moving inputs, parameters and results
    by one float32 unit.
    """
    rows = len(batch.x)
    residual, bound, good = (
        np.zeros((rows, 2)),
        np.full((rows, 2), np.inf),
        np.zeros(rows, dtype=bool),
    )
    unstable = []
    reach = FARTHER if batch.x[0].size >= LARGE else REACH
    for probe in probes(flow, batch, complete=False, calls=MAPS):
        if probe.tolerance:  # an iteration has an accuracy of its own
            continue
        probe = in_float32(probe)
        if not (rows_max(probe.points) <= reach).any():
            continue
        exact, refused = attempt(probe)
        if refused:
            # Rounding to float32 moved a point out of the set that the call accepts.
            continue
        single, error = attempt(probe, dtype="float32")
        if error or np.shape(single.value) != np.shape(exact.value):
            raise Unsupported(f"it does not run in float32 ({error or 'another shape'})")
        floors = (
            np.maximum(np.maximum(1, rows_max(probe.points)), rows_max(np.asarray(exact.value))),
            4 + np.abs(row_log_dets(exact, rows)),
        )
        errors = distance(exact, single, rows)
        moved, refused = attempt(
            rounding_sensitivity, flow, batch.seed, probe, exact, errors, floors
        )
        if refused:
            # One float32 unit moves a point out of the set that the call accepts.
            continue
        here = (
            finite_outcome_rows(exact, rows)
            & finite_outcome_rows(single, rows)
            & (rows_max(probe.points) <= reach)
            & np.isfinite(moved[0] + moved[1])
        )
        here &= (rows_max(np.asarray(exact.value)) <= LARGEST) & (
            np.abs(row_log_dets(exact, rows)) <= LARGEST * max(1.0, batch.x[0].size / ORDINARY)
        )
        for column, (apart, allowed) in enumerate(
            zip(errors, allowances(moved, floors), strict=True)
        ):
            worse = here & (apart * bound[:, column] > residual[:, column] * allowed)
            worse |= here & ~np.isfinite(bound[:, column])
            residual[worse, column], bound[worse, column] = apart[worse], allowed[worse]
            if (here & (apart > allowed)).any():
                unstable.append(f"the {('value', 'log-det')[column]} of {probe.name}")
        good |= here
    with np.errstate(all="ignore"):
        ratio = np.where(np.isfinite(bound), residual / bound, 0.0).max(1)
    note = (
        f"{', '.join(unstable)} is unstable in float32, though not wrong in float64"
        if unstable
        else ""
    )
    return Residual(ratio, allowed=1.0, decidable=good, note=note)


@law(
    "dtype/accurate[digits]",
    tolerance=EXACT,
    effort=4,
    size=16,
    scales=NEARBY,
    scanned=True,
    local=False,
    applies=in_double & used_in_single & not_estimator,
    source="tanh x is 1 in single precision from 9.02 on, and the logarithm of 1 - tanh^2 x is -inf",
    pointwise=True,
    localize_in_parts=True,
    cases=(MANY_AWAY,),
)
def two_digits(flow: Flow, batch: Batch) -> Residual:
    """In single precision a value, a log-det and a log-density are finite at ordinary points and
    have two digits, if double precision has them and moving inputs, contexts and parameters by one
    unit of single precision leaves more. Ordinary are data with coordinates up to 10, or given
    data, latents up to 4, values up to 10^4 and log-dets up to 60 per sixteen entries.
    """
    return lost_digits_residual(len(batch.x), single_precision_comparisons(flow, batch))


@requires("it is integrated to an accuracy beyond half precision")
def in_closed_form(flow: Flow) -> bool:
    """A solver with adaptive steps finds none short enough in half precision, and raises."""
    return not flow.certainty.log_det


@law(
    "dtype/accurate[autocast]",
    tolerance=EXACT,
    effort=1,
    size=48,
    scales=GIVEN,
    local=False,
    applies=in_double & used_in_single & not_estimator & records_on_request & in_closed_form,
    source="torch.autocast: products of matrices in half precision, whose largest number is 65504 in float16",
    pointwise=True,
)
def under_autocast(flow: Flow, batch: Batch) -> Residual:
    """Under autocast to float16 and bfloat16, values, log-dets and log-densities are finite at
    ordinary points, if they have digits in single precision and moving inputs, contexts and
    parameters by one unit of the half precision leaves some.
    """
    half = [one.under(form) for one in single_precision_comparisons(flow, batch) for form in HALVES]
    if not any(half):
        raise Unsupported("autocast does not change it", blocked=False)
    return lost_digits_residual(len(batch.x), [one for one in half if one is not None])


def single_precision_comparisons(flow: Flow, batch: Batch) -> list[PrecisionComparison]:
    """The comparisons in single precision of all calls without an iteration tolerance."""
    calls = [name for name in MAPS if not tolerance_of(flow, name)]
    probed = probes(flow, batch, complete=False, calls=calls)
    found = [compare_precision(flow, probe, batch.seed) for probe in probed]
    return [one for one in found if one is not None]


def lost_digits_residual(rows: int, found: list[PrecisionComparison]) -> Residual:
    """The residual of rows that lose digits unnecessarily, with a note on the first."""
    broken, judged, notes = np.zeros(rows), np.zeros(rows, dtype=bool), []
    for one in found:
        judged[one.rows] = True
        needless = one.needless()
        broken[one.rows[needless]] = 1.0
        notes += [one.note(int(row)) for row in np.flatnonzero(needless)[:1]]
    return Residual(broken, decidable=judged, note=notes[0] if notes else "")


@law(
    "dtype/accurate[sums]",
    tolerance=BOUND,
    effort=2,
    size=7,
    scales=AWAY,
    local=False,
    applies=not_estimator,
    source="a sum of thousands of log-scales in bfloat16 is off by several nats",
    pointwise=True,
)
def wide_sums(flow: Flow, batch: Batch) -> Residual:
    """Log-dets and log-densities of computations in half precision are not summed in it: they
    equal those with sums in double precision up to 0.001 nats.
    """
    rows, error, allowed = len(batch.x), np.zeros(len(batch.x)), np.full(len(batch.x), SUM)
    notes = []
    for probe in probes(flow, batch, complete=False, calls=MAPS):
        narrow, wide = (log_dets(probe(how), probe.name, rows) for how in ("plain", "wide_sums"))
        apart = np.abs(narrow - wide)
        allowed = np.maximum(allowed, SHARE * np.abs(wide))
        error = np.maximum(error, np.where(np.isfinite(apart), apart, 0.0))
        if (apart > allowed).any():
            notes.append(
                f"the {'log-density' if probe.name == 'log_prob' else f'log-det of {probe.name}'} is added up in half precision"
            )
    if not notes and not error.any():
        raise Unsupported("it adds nothing up in half precision", blocked=False)
    return Residual(error, allowed=allowed, nats=error, note=listed_names(notes))


def log_dets(out: Mapped, name: str, rows: int) -> Array:
    """The log-det, or log-density, of each row, ``(rows,)``."""
    return per_point(out.value, rows) if name == "log_prob" else row_log_dets(out, rows)
