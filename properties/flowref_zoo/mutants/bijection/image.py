"""Images outside of the codomain that is declared."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied


@mutant("map/domain[image]", host="torch:SigmoidTransform", sizes=(1e-3, 1.0))
def image_too_wide(subject: Subject, size: float = 1e-3) -> Subject:
    """Images fill a little more than the interval."""
    return multiplied(subject, "forward", 1 + size)


@mutant("map/domain[image]", host="torch:ExpTransform", sizes=(0.1,))
def image_below_zero(subject: Subject, size: float = 0.1) -> Subject:
    """Images of what is said to be positive are not."""
    return added(subject, "forward", -size)
