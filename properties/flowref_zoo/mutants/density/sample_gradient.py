"""Defects of gradients of samples."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from flowref.model import Subject, mutant
from flowref.model.steps import Drawn, Pathwise
from flowref_zoo.mutants.combinators import at

HOST = "flowref_zoo.specimens.implicit_samples:hyperbolic"


def _scaled(out: Drawn, factor: float) -> Drawn:
    return replace(out, slope=factor * out.slope)


@mutant("gradient/of-samples[density]", host=HOST, sizes=(0.5, 2.0))
def gradient_of_samples_scaled(subject: Subject, size: float = 0.5) -> Subject:
    """Gradients of samples are too small by a share of themselves; of twice that they point the other
    way.
    """
    return at(subject, Pathwise, partial(_scaled, factor=1 - size))
