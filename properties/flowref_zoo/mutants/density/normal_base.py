"""Defects of the constant of a normal base."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added


@mutant(
    "density/base-constant[latents]", host="reference:Flow[VectorRealNVP]", sizes=(1e-4, 0.1, 0.92)
)
def constant_is_off(subject: Subject, size: float = 0.92) -> Subject:
    """The constant of one dimension is missing, or less than that."""
    return added(subject, "log_prob", size)
