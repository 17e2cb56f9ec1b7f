"""Wrong normalizers and samples on a simplex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import added, wrapped

HOST = "flowref_zoo.specimens.styles.dirichlet:dirichlet"


@mutant("sampling/follows-density[simplex]", host=HOST, sizes=(0.1, 1.0))
def normalizer_missing(subject: Subject, size: float = 1.0) -> Subject:
    """The log-density is too low by a constant."""
    return added(subject, "log_prob", -size)


def _sharper(call: Callable[..., Any], size: float, *inputs: Any) -> Array:
    x = np.asarray(call(*inputs), dtype=np.float64) ** (1 + size)
    return np.asarray(x / x.sum(-1, keepdims=True))


@mutant("sampling/follows-density[simplex]", host=HOST, sizes=(0.05, 0.5))
def samples_sharper(subject: Subject, size: float = 0.2) -> Subject:
    """Samples are of another temperature."""
    return wrapped(subject, "sample", _sharper, size)
