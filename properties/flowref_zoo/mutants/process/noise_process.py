"""Defects of what a process that takes data to noise says of itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref.model.call import CONVERSIONS, TIME_FUNCTIONS
from flowref_zoo.mutants.combinators import multiplied, wrapped

TOKENS = "flowref_zoo.specimens.processes:tokens"
EQUATION = "flowref_zoo.specimens.processes:preserving"
PATH = "flowref_zoo.specimens.processes:path"
DENOISER = "flowref_zoo.specimens.processes:denoiser"
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


@mutant("process/kolmogorov", host=TOKENS, sizes=(1e-3, 0.5))
def rates_slowed(subject: Subject, size: float = 0.1) -> Subject:
    """The rates are off by a factor."""
    return wrapped(subject, "evolution", _one_column, 1, 1 + size)


def _one_column(call: Callable[..., Array], column: int, factor: float, *inputs: Array) -> Array:
    found = np.array(call(*inputs), np.float64)
    found[:, column] *= factor
    return found


@mutant("process/preconditioning", host=DENOISER, sizes=(0.05, 0.5))
def output_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The scaling of the output is off by a factor."""
    return wrapped(subject, "scalings", _one_column, 2, 1 + size)


def _tilted(scalings: Callable[..., Array], power: float, *inputs: Array) -> Array:
    found = np.array(scalings(*inputs), np.float64)
    found[:, 4] *= found[:, 0] ** power
    return found


@mutant("process/preconditioning[weight]", host=DENOISER, sizes=(0.1, 0.5))
def weight_tilted(subject: Subject, size: float = 0.1) -> Subject:
    """The weight of the loss grows with a small power of the noise level."""
    return wrapped(subject, "scalings", _tilted, size)


@mutant("process/schedule[functions]", host=PATH, sizes=(1e-3, 0.5))
def derivative_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """A derivative is off by a factor."""
    return wrapped(subject, "time_functions", _one_column, TIME_FUNCTIONS.index("1'"), 1 + size)


@mutant("process/schedule[functions]", host=PATH, sizes=(1e-3, 0.5))
def ratio_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The signal-to-noise ratio is off by a factor."""
    return wrapped(subject, "time_functions", _one_column, TIME_FUNCTIONS.index("snr"), 1 + size)


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


@mutant("process/conversions", host=PATH, sizes=(1e-2, 0.5))
def velocity_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The velocity that a score makes is off by a factor, as the noise that it stands for."""
    return wrapped(subject, "conversions", _one_row, CONVERSIONS.index(("score", "v")), 1 + size)


@mutant("process/prior", host=EQUATION, sizes=(1e-2, 0.5))
def prior_density_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """The log-density of the prior is off by a factor."""
    return wrapped(subject, "prior", _one_row, 0, 1 + size)


@mutant("process/prior", host=EQUATION, sizes=(0.1, 1.0))
def prior_draws_scaled(subject: Subject, size: float = 0.1) -> Subject:
    """Draws of the prior are off by a factor."""
    return wrapped(subject, "prior", _one_row, 1, 1 + size)
