"""Noise that is drawn too often, or too rarely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run, Step
from flowref_zoo.mutants.combinators import living, observed

HOST = "flowref_zoo.specimens.estimators:traced"


@mutant("random/once-per-solve", host=HOST, sizes=(0.4, 1.0))
def noise_at_every_evaluation(subject: Subject, size: float = 1.0) -> Subject:
    """Noise is drawn in the field, or for every other of its evaluations."""
    return observed(subject, redrawn=size)


@mutant("random/seeded[log-det]", host=HOST)
def noise_is_kept(subject: Subject, size: float = 1.0) -> Subject:
    """Every call has the noise of the first."""
    return living(subject, _kept)


def _kept(steps: Sequence[Step[Any]], outcomes: list[Any]) -> list[Any]:
    first: Mapped | None = None
    kept = []
    for step, out in zip(steps, outcomes, strict=True):
        if isinstance(step, Run):
            first = out if first is None else first
            out = Mapped(out.value, first.ladj)
        kept.append(out)
    return kept
