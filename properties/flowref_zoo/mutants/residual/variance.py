"""Series that stop too soon for what they add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

HOST = "flowref_zoo.specimens.estimators:roulette"


@mutant("residual/finite-variance", host=HOST, sizes=(1e-3, 1e-2))
def stops_nearly_always(subject: Subject, size: float = 1e-3) -> Subject:
    """It goes on with a small chance alone."""
    return subject.with_facts(promises={**subject.promises, "geometric-stop": 1 - size})


@mutant("residual/finite-variance", host=HOST, sizes=(0.75, 0.95))
def contracts_too_little(subject: Subject, size: float = 0.75) -> Subject:
    """What is added to x has a spectral radius of that everywhere."""
    return wrapped(subject, "jacobian", _steeper, size)


def _steeper(jacobian: Callable[..., Array], radius: float, *inputs: Any) -> Array:
    matrices = jacobian(*inputs)
    identity = np.eye(matrices.shape[1])
    largest = np.abs(np.linalg.eigvals(matrices - identity)).max(1)[:, None, None]
    return np.asarray(identity + (matrices - identity) * radius / np.maximum(largest, 1e-12))
