"""Errors of solvers: what falls as steps are halved is theirs, and no error of the map."""

from __future__ import annotations

import contextlib

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.model import Batch, Subject

# So many times the steps are tried, and to which share of itself an error is to fall.
TIMES, SHARE = (2, 4, 8, 16, 32), 0.15
# Moved parameters make fields so steep that no such number of steps suffices: there an error is the
# solver's of which more steps change so much.
CHANGED = 0.1
FALLS = "it falls with the steps of its solver, and is the error of these"
# Beyond that, beside the number of entries, no error is that of a solver that anybody would use.
GROSS = 0.5
UNKNOWN = (
    "it may be the error of its solver, and nothing tells how that takes more steps: an attribute n_steps does, "
    "or say ?promises=log-det-tolerance=1e-3, or what its accuracy is"
)


def excused(measurement: Measurement, point: Batch) -> str:
    """Why the residual at a point may be the error of a solver of which nobody states how accurate it
    is: it falls to a small share of itself as the solver takes more steps, or is no gross one and
    nothing tells how it takes more. Empty where it is no such error. What somebody states is held
    against the object whatever falls.
    """
    subject = measurement.subject
    assumed = measurement.law.by_steps and subject.promises.get("assumed-accuracy")
    if subject.refined is None or not assumed:
        return ""
    with contextlib.suppress(Exception):  # more steps may take more than there is
        start = _size(measurement, point, subject)
        if not np.isfinite(start):
            return ""
        for times in TIMES:
            finer = subject.refined(times)
            if finer is None:
                gross = start > GROSS * point.x[0].size and not measurement.moved
                return "" if gross else UNKNOWN
            size = _size(measurement, point, finer)
            if size <= SHARE * start:
                return FALLS
            if measurement.moved and abs(size - start) > CHANGED * start:
                return FALLS
    return ""


def _size(measurement: Measurement, point: Batch, subject: Subject) -> float:
    """The residual of the law at a point of a subject; infinite where it is silent."""
    residual = measurement.law.measure(subject, point)
    if residual.silent[0]:
        return np.inf
    return float(residual.per_row()[0])
