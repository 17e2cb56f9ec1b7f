"""Defects of the score that a density offers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import multiplied, wrapped

MIXTURE = "flowref_zoo.specimens.scores:mixture"
BANANA = "flowref_zoo.specimens.scores:banana"


@mutant("density/score", host=MIXTURE, sizes=(1e-9, 0.5))
def score_scaled(subject: Subject, size: float = 0.5) -> Subject:
    """The score is off by a factor."""
    return multiplied(subject, "score", 1 - size)


def _without_context(score: Callable[..., Array], x: Array, context: Array | None = None) -> Array:
    return score(x, None if context is None else np.zeros_like(context))


@mutant("density/score[context]", host=BANANA)
def score_without_context(subject: Subject, size: float = 1.0) -> Subject:
    """The score is that of another context."""
    return wrapped(subject, "score", _without_context)
