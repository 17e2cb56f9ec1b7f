"""Three doubts before an accusation: whether it is rounding after all, whether the point is a kink,
what a second oracle says.

Whatever a doubt leaves open is undecided, which is counted and shown, and accuses nobody.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flowref.checking.tolerance import (
    CONFIRM_REPLICAS,
    DOUBLE,
    FINE,
    FINE_REPLICAS,
    HELD,
    QUICK_REPLICAS,
    SINGLE,
    UNDECIDED,
    VIOLATED,
    Judgement,
    Precision,
    judge,
)
from flowref.model import ROUNDING, Batch, Law, Residual, Subject, seed_of

# How far beside a point a law of derivatives is measured again, relative to 1 + |x|.
ASIDE = 2.0**-16
# A second look with this many runs dismisses most suspicions before the full number is spent.
SECOND_REPLICAS = 8
# Operations of a round trip from which on the runs that confirm are half as many.
COSTLY = 10_000
# Doubts are costly: they are tried on this many rows first.
FOREMOST = 3


def measured(law: Law, subject: Subject, batch: Batch) -> Residual:
    """Measure on a copy of the inputs: a subject that works in place must not corrupt its own
    counterexample.
    """
    with np.errstate(all="ignore"):
        return law.measure(
            subject,
            Batch(
                batch.x.copy(), None if batch.context is None else batch.context.copy(), batch.seed
            ),
        )


def reviewed(
    law: Law,
    subject: Subject,
    batch: Batch,
    residual: Residual,
    judgement: Judgement,
    seed: int,
    moved: bool,
) -> tuple[Batch, Judgement]:
    """Review what was judged a violation, and the batch on which that was done: the rows that
    violate most, where these show the violation by themselves and keep it, and the whole batch
    otherwise.
    """
    violating = np.flatnonzero(judgement.outcome == VIOLATED)
    if law.tolerance == ROUNDING and len(violating) and len(batch.x) > FOREMOST:
        margin = np.nan_to_num(judgement.margin[violating], nan=np.inf)
        foremost = np.sort(violating[np.argsort(-margin, kind="stable")[:FOREMOST]])
        few = batch.rows(foremost)
        try:
            found = measured(law, subject, few)
            suspicion = judge(law, subject, few, found, judgement.precision, seed=seed)
            confirmed = review(law, subject, few, found, suspicion, seed, moved)
        except Exception:  # what happens with fewer rows says nothing about the batch
            return batch, review(law, subject, batch, residual, judgement, seed, moved)
        if (confirmed.outcome == VIOLATED).any():
            return few, confirmed
        if confirmed.acquitted:
            outcome = np.where(judgement.outcome == VIOLATED, UNDECIDED, judgement.outcome)
            return batch, replace(judgement, outcome=outcome, reason=confirmed.reason)
        # A point that violates without the other rows as well, and is dismissed there, need not be
        # dismissed again.
        shown = suspicion.outcome == VIOLATED
        outcome = judgement.outcome.copy()
        outcome[foremost[shown]] = confirmed.outcome[shown]
        judgement = replace(judgement, outcome=outcome, reason=confirmed.reason or judgement.reason)
    return batch, review(law, subject, batch, residual, judgement, seed, moved)


def review(
    law: Law,
    subject: Subject,
    batch: Batch,
    residual: Residual,
    judgement: Judgement,
    seed: int,
    moved: bool,
) -> Judgement:
    """Confirm what was judged a violation: more noise, the target's real precision, beside the
    point, by a second oracle.
    """
    precision = judgement.precision
    suspected = judgement.outcome == VIOLATED
    if not suspected.any() or law.tolerance != ROUNDING:
        return judgement
    if precision is DOUBLE and leaks(subject, batch):
        # float32 arithmetic inside: `conduct/dtype-follow` reports it, and every other law is
        # judged at float32's roundoff.
        precision = replace(SINGLE, factor=2 * SINGLE.factor)
        judgement = judge(law, subject, batch, residual, precision, seed=seed)
        outcome = np.where(
            suspected | (judgement.outcome != VIOLATED), judgement.outcome, UNDECIDED
        )
        judgement = replace(judgement, outcome=outcome)
    if law.local:
        judgement = beside(law, subject, batch, judgement, precision, seed)
    suspected = judgement.outcome == VIOLATED
    if not suspected.any():
        return judgement
    share = 2 if subject.operations > COSTLY else 1
    confirmed = judge(
        law, subject, batch, residual, precision, SECOND_REPLICAS, seed_of(seed, "second")
    )
    if (suspected & (confirmed.outcome == VIOLATED)).any():
        confirmed = judge(
            law,
            subject,
            batch,
            residual,
            precision,
            CONFIRM_REPLICAS // share,
            seed_of(seed, "confirm"),
        )
    outcome = np.where(
        suspected & (confirmed.outcome == VIOLATED),
        VIOLATED,
        np.where(suspected, UNDECIDED, judgement.outcome),
    )
    outcome = np.where(suspected & (confirmed.outcome == HELD), HELD, outcome)
    if precision is DOUBLE and (outcome == VIOLATED).any():
        # Where errors grow until they saturate, amplified noise saturates too and looks small when
        # it is scaled back; noise of nearly the size of rounding itself does not.
        fine = judge(
            law, subject, batch, residual, FINE, FINE_REPLICAS // share, seed_of(seed, "fine")
        )
        outcome = np.where((outcome == VIOLATED) & (fine.outcome != VIOLATED), UNDECIDED, outcome)
    if moved:
        outcome = np.where(
            (outcome == VIOLATED) & ~np.isfinite(confirmed.residual), UNDECIDED, outcome
        )
    reviewed = replace(confirmed, outcome=outcome.astype(object))
    if law.arbitrate is not None and (reviewed.outcome == VIOLATED).any():
        worst = reviewed.worst()
        doubt = law.arbitrate(subject, batch.rows(slice(worst, worst + 1)))[1]
        if doubt:
            outcome = np.where(reviewed.outcome == VIOLATED, UNDECIDED, reviewed.outcome)
            reviewed = replace(reviewed, outcome=outcome, reason=doubt, acquitted=True)
    return reviewed


def leaks(subject: Subject, batch: Batch) -> bool:
    """Whether float32 arithmetic feeds the outputs of a float64 subject."""
    rows = batch.rows(slice(0, 2))
    for which in ("forward", "inverse", "log_prob"):
        if which not in subject.calls:
            continue
        try:
            x = (
                rows.x
                if which != "inverse" or subject.forward is None
                else subject.forward(rows.x, rows.context).value
            )
            if subject.calls[which].observe(x, rows.context, default=subject.dtype).float32:
                return True
        except (
            Exception
        ):  # what a call does is the laws' affair; here only its precision is asked for
            continue
    return False


def beside(
    law: Law, subject: Subject, batch: Batch, judgement: Judgement, precision: Precision, seed: int
) -> Judgement:
    """Keep violations of derivative laws that persist beside the point; the others sit on a kink,
    where any one-sided derivative is right.
    """
    rows = np.flatnonzero(judgement.outcome == VIOLATED)
    rng = np.random.default_rng(seed_of(seed, "aside") % 2**63)
    step = (
        ASIDE
        * (1 + np.abs(batch.x))
        * rng.choice((-1.0, 1.0), size=batch.x.shape)
        * rng.uniform(0.5, 1, batch.x.shape)
    )
    persists = np.zeros(len(batch.x), dtype=bool)
    support, _ = subject.drawn(law.given)
    if support.kind in ("simplex", "ordered"):
        return judgement
    for sign in (1.0, -1.0):
        beside = batch._replace(x=batch.x + sign * step)
        inside = support.holds(beside.x) | ~support.holds(batch.x)
        beside = beside._replace(
            x=np.where(inside.reshape(-1, *[1] * (batch.x.ndim - 1)), beside.x, batch.x)
        )
        try:
            residual = measured(law, subject, beside)
            again = judge(law, subject, beside, residual, precision, QUICK_REPLICAS, seed)
        except Exception:  # the law could not be measured there: the point itself decides
            continue
        persists |= again.outcome == VIOLATED
    outcome = judgement.outcome.copy()
    outcome[rows[~persists[rows]]] = UNDECIDED
    return replace(
        judgement,
        outcome=outcome,
        reason="the map has a kink at the point, where no derivative exists",
    )
