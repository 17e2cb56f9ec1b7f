"""Defects of densities, put into healthy subjects."""

from __future__ import annotations

from flowref.laws.common.defects import added, multiplied
from flowref.model import Subject, mutant

FLOW = "zuko:NSF?features=2"


@mutant("density/change-of-variables", host=FLOW, sizes=(1e-9, 1e-4))
def constant_missing(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-density lacks a constant, as a base without its normalizer."""
    return added(subject, "log_prob", size)


@mutant("density/integrates-to-one", host="zuko:NSF?features=1")
def mass_missing(subject: Subject, size: float = 0.01) -> Subject:
    """One part in a hundred of the mass is missing."""
    return added(subject, "log_prob", -size)


@mutant("density/samples-consistent", host="zuko:MAF", sizes=(0.1, 0.2))
def samples_too_narrow(subject: Subject, size: float = 0.1) -> Subject:
    """Samples are drawn at a temperature that the density does not know."""
    return multiplied(subject, "sample", 1 - size)
