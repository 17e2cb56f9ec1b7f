"""Defects of what a process that takes data to noise says of itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import multiplied, wrapped

TOKENS = "flowref_zoo.specimens.processes:tokens"
EQUATION = "flowref_zoo.specimens.processes:preserving"
STEPS = "flowref_zoo.specimens.processes:steps"


def _one_entry(call: Callable[..., Array], size: float, *inputs: Array) -> Array:
    found = np.array(call(*inputs), np.float64)
    found[0, 0, 1] += size
    return found


@mutant("process/rates", host=TOKENS, sizes=(1e-3, 1.0))
def rate_added(subject: Subject, size: float = 0.1) -> Subject:
    """A rate is added that the diagonal lacks."""
    return wrapped(subject, "rates", _one_entry, size)


@mutant("process/transitions", host=TOKENS, sizes=(1e-3, 1.0))
def transition_added(subject: Subject, size: float = 0.1) -> Subject:
    """A probability is added that no other lacks."""
    return wrapped(subject, "transitions", _one_entry, size)


def _one_row(call: Callable[..., Array], row: int, factor: float, *inputs: Array) -> Array:
    found = np.array(call(*inputs), np.float64)
    found[:, row] *= factor
    return found


@mutant("process/moments", host=EQUATION, sizes=(1e-2, 0.5))
def diffusion_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The diffusion is off by a factor."""
    return wrapped(subject, "moments", _one_row, 3, 1 + size)


@mutant("process/moments", host=EQUATION, sizes=(1e-2, 0.5))
def drift_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The drift is off by a factor."""
    return wrapped(subject, "moments", _one_row, 2, 1 + size)


def _first_beta(schedule: Callable[[], Array], factor: float) -> Array:
    found = np.array(schedule(), np.float64)
    found[0] *= factor
    return found


@mutant("process/schedule", host=STEPS, sizes=(1e-2, 0.5))
def betas_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The variances of steps are off by a factor."""
    return wrapped(subject, "schedule", _first_beta, 1 - size)


@mutant("process/conversions", host=STEPS, sizes=(1e-2, 0.5))
def predictions_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """What is found is off by a factor."""
    return multiplied(subject, "conversions", 1 - size)
