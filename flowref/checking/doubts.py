"""Reasons to doubt an accusation that can be measured: float32 arithmetic within, and a kink at the
point.
"""

from __future__ import annotations

import numpy as np

from flowref.checking.judgement import UNDECIDED, Judgement
from flowref.checking.tolerance import judge
from flowref.model import Batch, Subject, seed_of

# How far beside a point a law of derivatives is measured again, relative to 1 + |x|.
ASIDE = 2.0**-16


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
        except Exception:  # what a call does is the laws' affair; here only its precision matters
            continue
    return False


def beside(judgement: Judgement) -> Judgement:
    """Keep violations of derivative laws that persist beside the point; the others sit on a kink,
    where any one-sided derivative is right.
    """
    measurement = judgement.measurement
    law, batch = measurement.law, measurement.batch
    support, _ = measurement.subject.drawn(law.points)
    if support.kind in ("simplex", "ordered"):  # a step of one coordinate leaves the set
        return judgement
    rng = np.random.default_rng(seed_of(measurement.seed, "aside") % 2**63)
    step = ASIDE * (1 + np.abs(batch.x)) * rng.choice((-1.0, 1.0), size=batch.x.shape)
    step = step * rng.uniform(0.5, 1, batch.x.shape)
    persists = np.zeros(len(batch.x), dtype=bool)
    for sign in (1.0, -1.0):
        x = batch.x + sign * step
        inside = support.holds(x) | ~support.holds(batch.x)
        x = np.where(inside.reshape(-1, *[1] * (batch.x.ndim - 1)), x, batch.x)
        try:
            persists |= judge(measurement.again(batch._replace(x=x))).violated
        except Exception:  # where the law cannot be measured, nothing persists
            continue
    outcome = np.where(judgement.violated & ~persists, UNDECIDED, judgement.outcome)
    return judgement.with_outcome(
        outcome, "the map has a kink at the point, where no derivative exists"
    )
