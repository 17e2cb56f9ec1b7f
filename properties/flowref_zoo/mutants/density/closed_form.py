"""Wrong constants, put into healthy normal distributions."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied

NORMAL, DIAGONAL = "torch:distributions.Normal", "zuko:distributions.DiagNormal"


@mutant("density/base-constant[quadratic-form]", host=NORMAL, sizes=(1e-8, 1e-4, 0.7))
def constant_rounded(subject: Subject, size: float = 1e-8) -> Subject:
    """The log-density is off by a constant, as by one that was kept in single precision."""
    return added(subject, "log_prob", size)


@mutant("density/base-constant[quadratic-form]", host=DIAGONAL, sizes=(1e-8, 1e-2))
def tempered(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-density is that of another temperature, without its constant."""
    return multiplied(subject, "log_prob", 1 - size)
