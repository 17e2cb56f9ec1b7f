"""Series that are none: estimates with other factors and terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run, Train
from flowref_zoo.mutants.combinators import after, at


@mutant(
    "map/log-det-unbiased[series]",
    host="flowref_zoo.specimens.estimators:series",
    sizes=(0.1, 0.3, 2.0),
)
def series_times(subject: Subject, size: float = 0.3) -> Subject:
    """Estimates are too large by a factor, as of the square of a probe that has another variance."""

    def scaled(out: Any) -> Mapped:
        return Mapped(out.value, (1 + size) * np.asarray(out.ladj))

    return at(subject, Run, scaled)


@mutant(
    "map/log-det-unbiased[series]",
    host="flowref_zoo.specimens.estimators:roulette",
    sizes=(0.05, 0.3),
)
def series_plus(subject: Subject, size: float = 0.3) -> Subject:
    """A surrogate of another value."""

    def shifted(out: Any) -> Mapped:
        return Mapped(out.value, size + np.asarray(out.ladj))

    return at(subject, Run, shifted)


@mutant(
    "map/log-det-unbiased[series, train]",
    host="flowref_zoo.specimens.estimators:trained_trace",
    sizes=(0.1, 0.3, 2.0),
)
def trained_series_times(subject: Subject, size: float = 0.3) -> Subject:
    """Estimates are too large by a factor, in train mode alone."""

    def scaled(out: Any) -> Mapped:
        return Mapped(out.value, (1 + size) * np.asarray(out.ladj))

    return after(subject, Train, Run, scaled)
