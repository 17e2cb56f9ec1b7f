"""Defects of a lower bound that is offered beside the log-density."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added


@mutant("density/evidence-bound", host="flowref_zoo.specimens.evidence:explained", sizes=(0.2, 1.0))
def evidence_bound_too_high(subject: Subject, size: float = 0.3) -> Subject:
    """The bound lacks a constant."""
    return added(subject, "bound", size)
