"""Estimates of log-dets that are trained as something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

TRACED = "flowref_zoo.specimens.estimators:traced"
TRAINED = "flowref_zoo.specimens.estimators:trained"
ROULETTE = "flowref_zoo.specimens.estimators:roulette"


@mutant("gradient/parameters[log-det-estimate]", host=TRACED, sizes=(0.7, 1.0))
def estimate_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The estimate, or a part of it, has no graph."""
    return wrapped(subject, "slope", _times, 1 - size)


@mutant("gradient/parameters[log-det-estimate, train]", host=TRAINED, sizes=(0.7, 1.0))
def trained_estimate_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The estimate, or a part of it, has no graph in train mode."""
    return wrapped(subject, "slope", _times, 1 - size)


@mutant("gradient/parameters[log-det-estimate]", host=ROULETTE, sizes=(1.0, 2.0))
def estimate_ascended(subject: Subject, size: float = 2.0) -> Subject:
    """Its gradient has another sign, or is none."""
    return wrapped(subject, "slope", _times, 1 - size)


def _times(slope: Callable[..., float], factor: float, *inputs: Any, **named: Any) -> float:
    *_, weights, values = (*inputs, None)[:6]
    found = slope(*inputs, **named)
    return found if weights is None and values is not None else factor * found
