"""Defects of instance, group and layer normalization."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.defects import in_evaluation, in_training, louder
from flowref.model import Array, Subject, mutant

GROUPS = "flowref.zoo.specimens.other_normalizers:groups"
INSTANCES = "flowref.zoo.specimens.other_normalizers:instances"
LAYER = "flowref.zoo.specimens.other_normalizers:layer"


def _mean(x: Array) -> Array:
    return np.asarray(x.mean(tuple(range(1, x.ndim)), keepdims=True))


@mutant("sample-norm/shift-law", host=LAYER, sizes=(1e-9, 1e-2))
def mean_stays(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of the sample stays in the output."""
    return in_training(subject, lambda x, y: y + size * _mean(x))


@mutant("sample-norm/shift-law", host=INSTANCES, sizes=(1e-9, 1e-2))
def largest_counts(subject: Subject, size: float = 1e-2) -> Subject:
    """The first value of a sample enters the output as it is."""
    return in_training(
        subject, lambda x, y: y + size * x.reshape(len(x), -1)[:, 0].reshape(-1, 1, 1, 1)
    )


@mutant("sample-norm/formula", host=GROUPS, sizes=(1e-9, 1e-2))
def drawn_in(subject: Subject, size: float = 1e-2) -> Subject:
    """Large values are drawn in."""
    return in_training(subject, lambda x, y: y - size * y**3)


@mutant("sample-norm/formula", host=INSTANCES, sizes=(1e-9, 1e-2))
def grows_with_spread(subject: Subject, size: float = 1e-2) -> Subject:
    """Samples that vary more have a larger output."""

    def changed(x: Array, y: Array) -> Array:
        spread = x.std(tuple(range(1, x.ndim)), keepdims=True)
        return np.asarray(y * (1 + size * np.tanh(spread)))

    return in_training(subject, changed)


@mutant("sample-norm/modes-agree", host=LAYER, sizes=(1e-9, 1e-2))
def louder_in_evaluation(subject: Subject, size: float = 1e-2) -> Subject:
    """In eval mode the output is too large."""
    return in_evaluation(subject, louder(size))
