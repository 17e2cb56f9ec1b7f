"""Defects of batches: results that depend on what else is in one."""

from __future__ import annotations

from functools import partial

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import Asked, answered

COUPLING = "nflows:AffineCouplingTransform"


def _chunked(size: float, out: Mapped, asked: Asked) -> Mapped:
    value = np.array(out.value)
    value[256:] += size
    return Mapped(value, out.ladj)


@mutant("same/rows[large-batch]", host=COUPLING, sizes=(1e-8, 1e-3))
def last_chunk_is_wrong(subject: Subject, size: float = 1e-3) -> Subject:
    """Batches are worked on in chunks of 256 rows, and the last one is not like the others."""
    return answered(subject, partial(_chunked, size))


def _largest(size: float, out: Mapped, asked: Asked) -> Mapped:
    far = np.abs(np.asarray(asked.inputs[0])).max() > 500
    return Mapped(np.asarray(out.value) + size * far, out.ladj)


@mutant("same/rows[large-batch]", host=COUPLING, sizes=(1e-8, 1e-3))
def tolerance_of_the_largest(subject: Subject, size: float = 1e-3) -> Subject:
    """A tolerance is relative to the largest point of the batch."""
    return answered(subject, partial(_largest, size))
