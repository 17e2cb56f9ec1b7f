"""Defects of estimated log-densities."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied

HOST = "flowref_zoo.specimens.estimated_densities:linear"


@mutant("sampling/follows-density[estimate]", host=HOST, sizes=(0.1, 0.5))
def estimate_is_too_high(subject: Subject, size: float = 1.0) -> Subject:
    """A constant of the base is missing."""
    return added(subject, "log_prob", size)


@mutant("sampling/follows-density[estimate]", host=HOST, sizes=(-0.1, 0.1, 0.5))
def samples_of_another_temperature(subject: Subject, size: float = 1.0) -> Subject:
    """Samples are wider than the density, or narrower."""
    return multiplied(subject, "sample", 1 + size)
