"""Defects of densities, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied, wrapped

FLOW = "zuko:NSF?features=2"


@mutant("density/change-of-variables", host=FLOW, sizes=(1e-9, 1e-4))
def constant_missing(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-density lacks a constant, as a base without its normalizer."""
    return added(subject, "log_prob", size)


@mutant("density/mass", host="zuko:NSF?features=1")
def mass_missing(subject: Subject, size: float = 0.01) -> Subject:
    """One part in a hundred of the mass is missing."""
    return added(subject, "log_prob", -size)


@mutant("sampling/follows-density[ratios]", host="zuko:MAF", sizes=(0.1, 0.2))
def samples_too_narrow(subject: Subject, size: float = 0.1) -> Subject:
    """Samples are drawn at a temperature that the density does not know."""
    return multiplied(subject, "sample", 1 - size)


@mutant("sampling/follows-density[ratios]", host="zuko:MAF", sizes=(0.5, 8.0, 40.0))
def normalizer_missing(subject: Subject, size: float = 8.0) -> Subject:
    """The log-density is too low by a constant, as without the normalizer of many dimensions."""
    return added(subject, "log_prob", -size)


def _stuck(sample: Callable[..., Array], n: int, seed: int, context: Array | None = None) -> Array:
    x = np.array(sample(n, seed, context))
    x.reshape(n, -1)[:, -1] = 0.25
    return x


@mutant("sampling/follows-density[ratios]", host="zuko:MAF")
def entry_without_noise(subject: Subject) -> Subject:
    """The last entry of every sample is the same number."""
    return wrapped(subject, "sample", _stuck)


def _broken(
    sample: Callable[..., Array], share: float, n: int, seed: int, context: Array | None = None
) -> Array:
    x = np.array(sample(n, seed, context))
    x[np.random.default_rng(seed).random(n) < share] = np.nan
    return x


@mutant("sampling/follows-density[ratios]", host="zuko:MAF", sizes=(0.02, 0.3))
def samples_not_finite(subject: Subject, size: float = 0.05) -> Subject:
    """Some samples are nan, as where an inverse divides zero by zero."""
    return wrapped(subject, "sample", _broken, size)
