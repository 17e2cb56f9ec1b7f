"""Copies that are other distributions."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied


@mutant("same/manner[expanded]", host="torch:distributions.Normal", sizes=(1e-9, 1e-2))
def scale_forgotten(subject: Subject, size: float = 1e-2) -> Subject:
    """The copies have another scale, and another constant."""
    return added(subject, "expanded", size)


@mutant(
    "same/manner[expanded]", host="pyro:TransformedDistribution[splines,features=2]", sizes=(1e-6,)
)
def copies_tempered(subject: Subject, size: float = 1e-2) -> Subject:
    """The copies are of another temperature."""
    return multiplied(subject, "expanded", 1 - size)
