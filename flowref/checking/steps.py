"""Errors of solvers: what falls as steps are halved is theirs, and no error of the map."""

from __future__ import annotations

import contextlib

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.model import Batch

# So many times the steps are tried, and to which share of itself an error is to fall.
TIMES, SHARE = (2, 4, 8, 16, 32), 0.15
# Moved parameters make fields so steep that no such number of steps suffices: there an error is the
# solver's of which more steps change so much.
CHANGED = 0.1
FALLS = "it falls with the steps of its solver, and is the error of these"


def falls(measurement: Measurement, point: Batch) -> bool:
    """Whether the residual at a point falls to a small share of itself as the solver of the subject takes
    more steps. What does not fall is no error of a solver. A tolerance that somebody states is held
    against it whatever falls; asked where one was assumed.
    """
    subject = measurement.subject
    if subject.refined is None or not subject.promises.get("assumed-accuracy"):
        return False
    with contextlib.suppress(Exception):  # more steps may take more than there is
        start = _size(measurement, point, 1)
        if not np.isfinite(start):
            return False
        for times in TIMES:
            size = _size(measurement, point, times)
            if size <= SHARE * start:
                return True
            if measurement.moved and abs(size - start) > CHANGED * start:
                return True
    return False


def _size(measurement: Measurement, point: Batch, times: int) -> float:
    """The residual of the law at a point, with so many times the steps; infinite where it is silent."""
    subject = measurement.subject
    if times > 1:
        assert subject.refined is not None
        subject = subject.refined(times)
    residual = measurement.law.measure(subject, point)
    if residual.silent[0]:
        return np.inf
    return float(residual.per_row()[0])
