"""Defects of sizes, put into healthy subjects."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.model import Call, Observation, Subject, mutant
from flowref.model.steps import Run
from flowref_zoo.mutants.combinators import Steps, living, shifted

COUPLING = "nflows:AffineCouplingTransform"


def _of_another_size(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    changed: list[Any] = []
    lengths: set[int] = set()
    for step, out in zip(steps, outcomes, strict=True):
        if not isinstance(step, Run):
            changed.append(out)
            continue
        length = len(step.inputs[0])
        changed.append(shifted(out, size) if lengths - {length} else out)
        lengths.add(length)
    return changed


@mutant("same/history[other-sizes]", host=COUPLING, sizes=(1e-8, 1e-2))
def kept_from_another_batch(subject: Subject, size: float = 1e-3) -> Subject:
    """What was computed for a batch of another size is used again."""
    return living(subject, partial(_of_another_size, size))


def _pairwise(observed: Any, size: float, inputs: Any, default: str, training: bool) -> Observation:
    seen: Observation = observed(inputs, default, training)
    return seen._replace(written=seen.written + int(size * len(inputs[0]) ** 2))


@mutant("effects/memory[rows]", host=COUPLING, sizes=(8.0, 1024.0))
def a_number_for_each_pair(subject: Subject, size: float = 8.0) -> Subject:
    """The inverse computes distances between all points of a batch."""
    call: Call[Any] = subject.calls["inverse"]
    calls = {
        **subject.calls,
        "inverse": replace(call, observed=partial(_pairwise, call.observed, size)),
    }
    return replace(subject, calls=calls)
