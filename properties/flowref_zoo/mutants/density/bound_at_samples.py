"""Samples of another distribution than the one of which a bound is reported."""

from __future__ import annotations

import numpy as np

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import added, multiplied, value_changed

HOST = "reference:KernelFlow[augment]"


@mutant("sampling/follows-bound", host=HOST, sizes=(0.2, 1.0))
def samples_are_wider(subject: Subject, size: float = 0.5) -> Subject:
    """Samples are those of another temperature."""
    return multiplied(subject, "sample", 1 + size)


@mutant("sampling/follows-bound", host=HOST)
def entries_change_places(subject: Subject, size: float = 1.0) -> Subject:
    """Samples are read off in another order."""
    return value_changed(subject, "sample", lambda x: np.stack([x[:, 1] + 0.5, x[:, 0] - 0.5], 1))


@mutant("sampling/follows-bound", host=HOST, sizes=(0.2, 1.0))
def bound_is_too_high(subject: Subject, size: float = 0.5) -> Subject:
    """The entropy of noise is counted with another constant."""
    return added(subject, "log_prob", size)


@mutant("sampling/follows-bound[overlap]", host=HOST, sizes=(0.5, 3.0))
def bound_is_far_too_high(subject: Subject, size: float = 1.0) -> Subject:
    """A term of the bound is counted twice."""
    return added(subject, "log_prob", size)
