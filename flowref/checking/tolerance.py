r"""Judgement of a residual: exactly, by a closed bound, or against measured rounding.

Rounding laws: a residual r of a point with scale S is first screened, $|r| \le 16uS$. What is left
is measured again R times under Monte-Carlo arithmetic with noise $Mu$; with
$s = \mathrm{rms}_i(r_i - r)$ the residual is a violation iff $|r| > k\,(s/M + uS/4) + b$ with the error b that the law
allows, and is then confirmed with more runs and fresh noise. Where the response to the noise is no longer small (s >
S/100), only a residual k times the *amplified* response is a violation; otherwise it is undecided.
float32 noise is not amplified (M = 1), and the response counts as small up to S. Points whose s exceeds
the span of the residual are undecided (see `Residual`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from flowref.checking.judgement import DROPPED, HELD, TRIVIAL, UNDECIDED, VIOLATED, Judgement
from flowref.checking.measurement import Measurement
from flowref.checking.response import Response
from flowref.model import EXACT, ROUNDING, Array, Evidence, Subject
from flowref.model.cost import LENGTHY

SCREEN = 16.0
RESPONSE_LIMIT = 0.01
# Points with coordinates up to here must return finite; farther out they may overflow.
FINITE_REACH, FINITE_SCALE = 16.0, 1e6
QUICK_REPLICAS, CONFIRM_REPLICAS, FINE_REPLICAS = 6, 32, 16
# This many runs dismiss most violations before the full number is spent, and confirm those far beyond
# noise.
SECOND_REPLICAS = 8
# An isolated violation needs this factor, this many runs, and noise of at least this amplification.
ALONE, LEAST_AROUND, FINEST = 1000.0, 6, 16.0
# Operations of a round trip from which on half as many runs confirm, and entries of an event from which
# on a quarter do: sums of that many vary little between runs.
COSTLY, VAST = 10_000, 1024
# Copies of a batch measured at once after the first glance (see `Response`).
STACKED, STACKED_HIGH = 2, 3
# The first glance of this many runs decides residuals this many times smaller than the allowance, or
# larger.
GLANCE_REPLICAS, GLANCE_FACTOR, CLEAR_FACTOR = 2, 4.0, 1000.0


def judge(measurement: Measurement, replicas: int = QUICK_REPLICAS, purpose: str = "") -> Judgement:
    """Judge every point of a measurement. ``purpose``: names separate noise, independent of that of
    a first judgement.

    A rounding law returns as soon as one of these decides every point; a first judgement is one of
    at most ``QUICK_REPLICAS`` runs:

    ============================  =======================================================
    after                         it returns if
    ============================  =======================================================
    no run                        the law is not of rounding: it is compared at once
    no run                        all points pass the screen, or the others are silent
    no run                        the subject has no noise: the others stay undecided
    each run of the glance        all points are clear; in a first judgement, and on vast
                                  events, also if the others are far beyond noise
    the glance                    a first judgement calls a lengthy subject
    `SECOND_REPLICAS` runs        all points are clear or far beyond noise; after one run
                                  more than the glance if calls are expensive
    ``replicas`` runs             always
    ============================  =======================================================

    Clear points hold by a wide margin, or no number of runs would decide them.
    """
    size, unit = measurement.size, measurement.precision.unit
    zero = np.zeros(len(size))
    if measurement.law.tolerance != ROUNDING:
        allowed = zero if measurement.law.tolerance == EXACT else measurement.bound
        outcome = np.where(size <= allowed, HELD, VIOLATED)
        note = measurement.residual.note
        return _masked(Judgement(measurement, outcome, allowed, zero, reason=note))
    allowed = SCREEN * unit * measurement.scale + measurement.bound
    screened = size <= allowed
    judgement = Judgement(measurement, np.where(screened, HELD, UNDECIDED), allowed, zero)
    if screened.all():
        return _masked(judgement)
    open_rows = ~screened & ~measurement.residual.silent
    if not open_rows.any():
        return _masked(judgement)
    if measurement.subject.noise is None:
        return _masked(replace(judgement, reason="no random rounding is available for it"))
    response = Response(measurement, open_rows, purpose)
    # Most residuals are far from the allowance of a glance or already undecidable; only the others need the
    # full number of runs. One run shows what is far beyond noise, and the confirmation repeats it.
    first, large = replicas <= QUICK_REPLICAS, vast(measurement.subject)
    for runs in (1,) * GLANCE_REPLICAS if first else (GLANCE_REPLICAS,):
        response.runs(runs)
        glance = _against(judgement, response)
        clear = (glance.outcome == HELD) & (GLANCE_FACTOR * size <= glance.allowed)
        clear |= ~open_rows | screened
        if first:
            clear |= _undecidable_rows(glance, response)
        if clear.all() or ((first or large) and (clear | far_beyond(glance)).all()):
            return _masked(glance)
    # A first judgement of lengthy calls ends with the glance: violations are measured again before they are
    # reported.
    if first and measurement.subject.operations > LENGTHY:
        return _masked(glance)
    heavy = measurement.subject.cost.heavy
    if heavy and not first:
        response.runs(1)
        glance = _against(judgement, response)
    fold = STACKED if replicas <= FINE_REPLICAS else STACKED_HIGH
    # A violation is confirmed by many more runs unless a few leave it clear; three suffice for expensive
    # calls.
    if not (first or heavy):
        response.runs(SECOND_REPLICAS - GLANCE_REPLICAS, fold)
        glance = _against(judgement, response)
    if (clear | far_beyond(glance)).all():
        return _masked(glance)
    if response.replicas < replicas:
        response.runs(replicas - response.replicas, fold)
    return _masked(_against(judgement, response))


def far_beyond(judgement: Judgement) -> Array:
    """Mask ``(batch,)`` of the rows that violate by so much that no number of runs would explain
    it.
    """
    size = judgement.measurement.size
    far = np.isfinite(size) & (size >= CLEAR_FACTOR * judgement.allowed)
    if judgement.isolated is not None:
        far &= ~judgement.isolated
    return np.asarray(judgement.violated & far)


def vast(subject: Subject) -> bool:
    """Whether calls are expensive on events of thousands of entries."""
    return subject.cost.heavy and math.prod(subject.event_shape) > VAST


def affordable_replicas(replicas: int, subject: Subject) -> int:
    """The number of runs, fewer if they are expensive."""
    if math.prod(subject.event_shape) > VAST:
        return replicas // 4
    return replicas // 2 if subject.operations > COSTLY else replicas


def guess(measurement: Measurement, like: Evidence) -> Judgement:
    """Return a judgement without noise, by the allowance of a point already judged; used to sort
    candidates.
    """
    size, scale, bound = measurement.size, measurement.scale, measurement.bound
    grown = like.allowed * np.maximum(1.0, scale / like.scale if like.scale > 0 else 1.0)
    allowed = bound if measurement.law.tolerance != ROUNDING else np.maximum(grown, bound)
    outcome = np.where(size <= allowed, HELD, VIOLATED)
    return _masked(Judgement(measurement, outcome, allowed, np.zeros(len(size))))


def _against(judgement: Judgement, response: Response) -> Judgement:
    """The judgement of the rows in question by their response to noise."""
    measurement, asked = judgement.measurement, response.rows
    precision, size, scale = measurement.precision, measurement.size, measurement.scale
    moved = response.size
    amplified = precision.amplify > 1
    # Noise that is not amplified is rounding itself: it is small up to the compared scale.
    linear = moved <= (RESPONSE_LIMIT if amplified else 1.0) * scale
    explained = precision.factor * np.where(linear, moved / precision.amplify, moved)
    allowed = explained + precision.factor * precision.unit * scale / 4 + measurement.bound
    decidable = np.isfinite(size) & response.steady & (moved <= measurement.residual.span)
    violated = decidable & (size > allowed)
    held = decidable & linear & ~violated
    isolated = _isolated(measurement, response)
    violated |= isolated | _never_finite(measurement, response)
    outcome = np.where(violated, VIOLATED, np.where(held, HELD, UNDECIDED))
    return replace(
        judgement,
        outcome=np.where(asked, outcome, judgement.outcome),
        allowed=np.where(asked, allowed, judgement.allowed),
        explained=np.where(asked, explained, 0.0),
        replicas=response.replicas,
        isolated=isolated,
        reason="rounding alone moves the result too much to decide",
    )


def _undecidable_rows(glance: Judgement, response: Response) -> Array:
    """Mask of rows that no number of runs of a first judgement decides: noise moves them too much,
    or makes them nan or inf.
    """
    measurement, moved = glance.measurement, response.size
    precision, size, scale = measurement.precision, measurement.size, measurement.scale
    amplified = precision.amplify > 1
    limit = (RESPONSE_LIMIT if amplified else 1.0) * scale
    wild = (moved > GLANCE_FACTOR * limit) & (GLANCE_FACTOR * size <= glance.allowed)
    wild |= moved > GLANCE_FACTOR * measurement.residual.span
    finite = np.isfinite(size)
    lost = finite & (wild | ~response.steady)
    if _may_be_alone(measurement):
        units = precision.unit * (scale + np.finfo(float).tiny)
        calm = (
            response.around[1] <= GLANCE_FACTOR * RESPONSE_LIMIT * units * precision.amplify * ALONE
        )
        lost &= ~(response.steady & calm & (size > ALONE * precision.factor * units))
    return np.asarray(lost | ~finite & ((response.finite > 0) | ~_ordinary_rows(measurement)))


def _may_be_alone(measurement: Measurement) -> bool:
    """Whether a law of values is judged with noise larger than a point's neighborhood."""
    return not measurement.law.local and measurement.precision.amplify > FINEST


def _isolated(measurement: Measurement, response: Response) -> Array:
    """Mask of points that violate a law of values while their neighborhood holds: a value wrong at
    a single knot, which noise cannot explain since it leaves the point.
    """
    precision, size = measurement.precision, measurement.size
    if not _may_be_alone(measurement) or response.replicas < LEAST_AROUND:
        return np.zeros(len(size), dtype=bool)
    mean, spread = response.around
    units = precision.unit * (measurement.scale + np.finfo(float).tiny)
    allowed = precision.factor * (spread + units) + measurement.bound
    calm = (spread <= RESPONSE_LIMIT * units * precision.amplify * ALONE) & (mean <= allowed)
    return np.asarray(
        response.rows & response.steady & calm & np.isfinite(size) & (size > ALONE * allowed)
    )


def _never_finite(measurement: Measurement, response: Response) -> Array:
    """Mask of points of ordinary size whose residual is not finite in any run, which rounding does
    not explain.
    """
    never = ~np.isfinite(measurement.size) & (response.finite == 0)
    return np.asarray(never & _ordinary_rows(measurement))


def _ordinary_rows(measurement: Measurement) -> Array:
    size, scale = measurement.size, measurement.scale
    flat = np.abs(measurement.batch.x).reshape(len(size), -1)
    near = (flat.max(1) if flat.shape[1] else np.zeros(len(size))) <= FINITE_REACH
    return np.asarray(near & np.isfinite(scale) & (scale <= FINITE_SCALE))


def _masked(judgement: Judgement) -> Judgement:
    """Mark exempt rows as dropped, and rows that hold for any subject as trivial."""
    residual = judgement.measurement.residual
    outcome = judgement.outcome.astype(object)
    if residual.trivial is not None:
        outcome[(outcome == HELD) & np.asarray(residual.trivial, dtype=bool)] = TRIVIAL
    # Exemptions matter only if some row does not hold.
    unheld = ((outcome != HELD) & (outcome != TRIVIAL)).any()
    silent = residual.silent if unheld else replace(residual, exempt={}).silent
    outcome[silent] = DROPPED
    exempt = (
        {words: int(rows.sum()) for words, rows in residual.exempt_rows.items()} if unheld else {}
    )
    return replace(judgement, outcome=outcome, exempt=exempt)
