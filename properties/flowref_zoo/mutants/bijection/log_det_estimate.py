"""Defects of estimated log-dets, put into healthy subjects."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run, Train
from flowref_zoo.mutants.combinators import after, at

RESIDUAL, SERIES = "FrEIA:IResNetLayer", "normflows:Residual[exact_trace]"
TRAINED = "flowref_zoo.specimens.estimators:trained"


def _times(subject: Subject, factor: float) -> Subject:
    def scaled(out: Any) -> Mapped:
        return Mapped(out.value, factor * np.asarray(out.ladj))

    return at(subject, Run, scaled)


@mutant("map/log-det[estimate, train]", host=TRAINED)
def sign_in_training(subject: Subject) -> Subject:
    """The trace is subtracted where it is estimated, in train mode alone."""

    def turned(out: Any) -> Mapped:
        return Mapped(out.value, -np.asarray(out.ladj))

    return after(subject, Train, Run, turned)


@mutant("map/log-det[estimate]", host=RESIDUAL)
def sign_of_the_estimate(subject: Subject) -> Subject:
    """The trace is subtracted."""
    return _times(subject, -1.0)


@mutant("map/log-det[estimate]", host=SERIES)
def nothing_estimated(subject: Subject) -> Subject:
    """The log-det is zero, with the shape of an estimate."""
    return _times(subject, 0.0)


@mutant("map/log-det[estimate]", host=SERIES, sizes=(0.8, 2.0))
def estimate_too_large(subject: Subject, size: float = 1.0) -> Subject:
    """The estimate is too large by a factor, as a sum over probes that is no mean."""
    return _times(subject, 1 + size)
