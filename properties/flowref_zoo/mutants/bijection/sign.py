"""Wrong signs."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import multiplied


@mutant("map/promised-jacobian[sign]", host="torch:SigmoidTransform")
def sign_turned(subject: Subject) -> Subject:
    """A map that increases says that it decreases."""
    return multiplied(subject, "sign", -1.0)


@mutant("map/promised-jacobian[sign]", host="pyro:AffineAutoregressive")
def sign_of_a_vector_turned(subject: Subject) -> Subject:
    """The same of a map of vectors."""
    return multiplied(subject, "sign", -1.0)
