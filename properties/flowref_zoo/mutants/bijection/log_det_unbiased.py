"""Defects of estimates that are promised to be unbiased, put into healthy subjects."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run
from flowref_zoo.mutants.combinators import at

ROULETTE = "reference:Residual[roulette]"


@mutant("map/log-det-unbiased", host=ROULETTE, sizes=(0.2, 1.0))
def terms_are_not_weighted(subject: Subject, size: float = 1.0) -> Subject:
    """Estimates are too small by a factor, as where terms are not divided by their chances."""

    def scaled(out: Any) -> Mapped:
        return Mapped(out.value, (1 - size / 2) * np.asarray(out.ladj))

    return at(subject, Run, scaled)


@mutant("map/log-det-unbiased", host=ROULETTE, sizes=(0.02, 0.1, 1.0))
def mean_is_shifted(subject: Subject, size: float = 0.1) -> Subject:
    """A surrogate with the right gradient and another value."""

    def shifted(out: Any) -> Mapped:
        return Mapped(out.value, size + np.asarray(out.ladj))

    return at(subject, Run, shifted)
