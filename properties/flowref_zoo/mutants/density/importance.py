"""Too much mass, put into healthy densities that are not sampled."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied

SQUARES = "flowref_zoo.specimens.styles.never_sampled:never_sampled"


@mutant("density/mass[importance]", host=SQUARES, sizes=(0.05, 1.0, 20.0))
def constant_added(subject: Subject, size: float = 0.5) -> Subject:
    """The log-density is too large by a constant, as where a normalizer is left out."""
    return added(subject, "log_prob", size)


@mutant("density/mass[importance]", host=SQUARES, sizes=(0.05, 0.5))
def tempered(subject: Subject, size: float = 0.2) -> Subject:
    """The log-density is shrunk, as at another temperature."""
    return multiplied(subject, "log_prob", 1 - size)
