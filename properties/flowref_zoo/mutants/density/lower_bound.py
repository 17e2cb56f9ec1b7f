"""Defects of lower bounds, put into healthy subjects."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added


@mutant("density/mass[bound]", host="flowref_zoo.specimens.bounds:variational", sizes=(0.2, 0.5))
def bound_too_high(subject: Subject, size: float = 0.3) -> Subject:
    """A constant of the posterior is missing, so that the bound is none."""
    return added(subject, "log_prob", size)


@mutant("density/mass[bound]", host="flowref_zoo.specimens.bounds:variational", sizes=(0.2, 0.5))
def bound_too_low(subject: Subject, size: float = 0.3) -> Subject:
    """A random bound that is low on average in its weights as well: a term is counted twice."""
    return added(subject, "log_prob", -size)


@mutant("density/mass[bound]", host="flowref_zoo.specimens.bounds:expected", sizes=(0.4, 1.0))
def expected_bound_too_high(subject: Subject, size: float = 0.5) -> Subject:
    """The divergence of a deterministic bound lacks a constant."""
    return added(subject, "log_prob", size)
