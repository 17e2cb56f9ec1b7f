"""A measurement: the value that is judged, reviewed, shrunk and recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from flowref.model import Array, Batch, Condition, Law, Residual, Subject, seed_of
from flowref.model.inverse_subject import swap_directions


@dataclass(frozen=True)
class Precision:
    """A floating-point format to judge at: unit roundoff, noise amplification M, and the factor k."""

    unit: float
    amplify: float
    factor: float


DOUBLE = Precision(2.0**-53, 2.0**10, 64.0)
# Noise of nearly the size of rounding separates saturated errors from unexplained ones.
FINE = Precision(2.0**-53, 4.0, 64.0)
# Noise cannot be amplified below what float32 itself rounds to, so M = 1 there.
SINGLE = Precision(2.0**-24, 1.0, 32.0)


def precision_of(subject: Subject) -> Precision:
    """The format that a subject is loaded in."""
    return DOUBLE if subject.dtype == "float64" else SINGLE


def measure(law: Law, subject: Subject, batch: Batch) -> Residual:
    """Return the residual of a law on a copy of the inputs: a subject that works in place must not
    corrupt its own counterexample. In an inverted condition the names of the directions are swapped
    back.
    """
    context = None if batch.context is None else batch.context.copy()
    with np.errstate(all="ignore"):
        residual = law.measure(subject, Batch(batch.x.copy(), context, batch.seed))
    if law.direction == "forward":
        return residual
    observed = {swap_directions(name): numbers for name, numbers in residual.observed.items()}
    return replace(residual, note=swap_directions(residual.note), observed=observed)


@dataclass(frozen=True)
class Measurement:
    """One law measured on one batch of one subject.

    ``precision``: the format it is judged at; ``root``: the seed of all noise; ``condition``: in
    which the subject was loaded.
    """

    law: Law
    subject: Subject
    batch: Batch
    residual: Residual
    precision: Precision
    root: int
    condition: Condition

    def again(self, batch: Batch) -> Measurement:
        """The same law measured on another batch. Raises whatever the law raises there."""
        return replace(self, batch=batch, residual=measure(self.law, self.subject, batch))

    def rows(self, index: Any) -> Measurement:
        """The same law measured on some rows alone."""
        return self.again(self.batch.rows(index))

    def at(self, precision: Precision) -> Measurement:
        """The same numbers, to be judged at another format."""
        return replace(self, precision=precision)

    @property
    def seed(self) -> int:
        """The seed of this law's noise."""
        return seed_of(self.root, self.law.key)

    @property
    def moved(self) -> bool:
        """Whether the parameters were perturbed."""
        return self.condition.scale > 0

    @cached_property
    def size(self) -> Array:
        """The residual of each point, ``(batch,)``."""
        return self.residual.per_row()

    @cached_property
    def scale(self) -> Array:
        """The magnitude that rounding is relative to, ``(batch,)``."""
        return np.broadcast_to(np.asarray(self.residual.scale, dtype=np.float64), self.size.shape)

    @cached_property
    def bound(self) -> Array:
        """The error that the law itself allows at each point, ``(batch,)``."""
        return np.broadcast_to(np.asarray(self.residual.allowed, dtype=np.float64), self.size.shape)
