"""Defects of estimated log-dets of the way back, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run, Step
from flowref_zoo.mutants.combinators import living, where

HOST, SERIES = "flowref_zoo.specimens.estimators:traced", "normflows:Residual[exact_trace]"
ROULETTE = "reference:Residual[roulette]"


def _back(subject: Subject, factor: float) -> Subject:
    return living(subject, partial(_scaled, factor))


def _scaled(factor: float, steps: Sequence[Step[Any]], outcomes: list[Any]) -> list[Any]:
    return where(_returns, partial(_times, factor), steps, outcomes)


def _returns(step: Step[Any]) -> bool:
    return isinstance(step, Run) and step.call == "inverse"


def _times(factor: float, out: Any) -> Mapped:
    return Mapped(out.value, factor * np.asarray(out.ladj))


@mutant("map/log-det[inverse, estimate]", host=HOST)
def sign_of_the_way_there(subject: Subject) -> Subject:
    """The trace counts with one sign whichever way time runs."""
    return _back(subject, -1.0)


@mutant("map/log-det[inverse, estimate]", host=SERIES, sizes=(0.8, 2.0))
def estimate_back_too_large(subject: Subject, size: float = 1.0) -> Subject:
    """The estimate of the inverse is too large by a factor."""
    return _back(subject, 1 + size)


@mutant("map/log-det-unbiased[inverse]", host=ROULETTE, sizes=(0.2, 1.0))
def terms_back_are_not_weighted(subject: Subject, size: float = 1.0) -> Subject:
    """Estimates of the inverse are too small by a factor."""
    return _back(subject, 1 - size / 2)
