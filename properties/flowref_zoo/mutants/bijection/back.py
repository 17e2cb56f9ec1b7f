"""Maps that leave the sets that they are declared between."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import multiplied

UNIT = "nflows:PiecewiseQuadraticCDF"


@mutant("map/domain[preimage]", host=UNIT, sizes=(1e-3, 0.1))
def too_wide_back(subject: Subject, size: float = 0.01) -> Subject:
    """Widths of bins add up to more than one."""
    return multiplied(subject, "inverse", 1 + size)
