"""Defects of saving, casting and training, put into the lives of a healthy subject."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.model import Subject, mutant
from flowref.model.steps import Cast, Fit, Fitted, Restore, Run, State, Train
from flowref_zoo.mutants.combinators import Steps, after, at, later, living, shifted

COUPLING = "nflows:AffineCouplingTransform"
NORMALIZER = "reference:InvertibleBatchNorm"


def _cached(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    """Runs after loading are stale where a run in eval mode came before it."""
    kinds = [type(step) for step in steps]
    if Restore not in kinds or Run not in kinds[: kinds.index(Restore)]:
        return outcomes
    return later(Restore, Run, partial(shifted, size=size), steps, outcomes)


@mutant("same/saved[restore]", host=COUPLING, sizes=(1e-8, 1e-3))
def stale_after_loading(subject: Subject, size: float = 1e-3) -> Subject:
    """A cached inverse weight outlives the loading of other parameters."""
    return living(subject, partial(_cached, size))


def _kept_from_training(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    """Only what was saved in train mode comes back wrong."""
    if not isinstance(steps[0], Train):
        return outcomes
    return later(Restore, Run, partial(shifted, size=size), steps, outcomes)


@mutant("same/saved[restore]", host=COUPLING, sizes=(1e-8, 1e-3))
def saved_in_train_mode(subject: Subject, size: float = 1e-3) -> Subject:
    """In train mode the state_dict lacks what eval mode computes and keeps."""
    return living(subject, partial(_kept_from_training, size))


@mutant("same/saved[cast]", host=COUPLING, sizes=(1e-8, 1e-3))
def cache_not_cast(subject: Subject, size: float = 1e-8) -> Subject:
    """A cached weight is that of before the cast."""
    return after(subject, Cast, Run, partial(shifted, size=size))


def _read_quietly(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    """Runs under no_grad are stale after loading where one under no_grad came before it."""
    kinds = [type(step) for step in steps]
    before = steps[: kinds.index(Restore)] if Restore in kinds else []
    if not any(_quiet(step) for step in before):
        return outcomes
    changed = later(Restore, Run, partial(shifted, size=size), steps, outcomes)
    return [
        new if _quiet(step) else old
        for step, old, new in zip(steps, outcomes, changed, strict=True)
    ]


def _quiet(step: Any) -> bool:
    return isinstance(step, Run) and step.how == "no_grad"


@mutant("same/saved[restore]", host=COUPLING, sizes=(1e-8, 1e-3))
def stale_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """What is cached for calls under no_grad outlives the loading of other parameters."""
    return living(subject, partial(_read_quietly, size))


def _spoilt(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.full_like(a, np.nan) if np.issubdtype(a.dtype, np.floating) else a
        for name, a in state.items()
    }


def _after_one_row(rows: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    small = [isinstance(step, Run) and len(step.x) <= rows for step in steps]
    if not any(small):
        return outcomes
    start = small.index(True) + 1
    return [
        _spoilt(out) if isinstance(step, State) and index >= start else out
        for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


@mutant("state/degenerate-batch", host=COUPLING)
def variance_of_one_row(subject: Subject, size: float = 1.0) -> Subject:
    """The running variance takes the unbiased variance of a batch of one row, which is nan."""
    return living(subject, partial(_after_one_row, size))


def _constant(step: Any) -> bool:
    return isinstance(step, Run) and bool((np.ptp(step.x.reshape(len(step.x), -1), 0) == 0).any())


def _after_constant(steps: Steps, outcomes: list[Any]) -> list[Any]:
    start = next((i for i, step in enumerate(steps) if _constant(step)), len(steps))
    return [
        shifted(out, np.inf) if isinstance(step, Run) and index > start else out
        for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


@mutant("state/degenerate-batch", host=NORMALIZER)
def spread_of_zero(subject: Subject, size: float = 1.0) -> Subject:
    """A scale is set to one over the spread of a feature that was constant in the first batch."""
    return living(subject, _after_constant)


@mutant("state/trains", host=COUPLING)
def raises_while_it_trains(subject: Subject, size: float = 1.0) -> Subject:
    """A bin is looked for in a table that training has made too short."""
    raised = "step 7 raises IndexError: index 8 is out of bounds"
    return at(subject, Fit, lambda fitted: Fitted(fitted.losses[:6], raised))


@mutant("state/trains", host=COUPLING)
def gradient_of_a_root(subject: Subject, size: float = 1.0) -> Subject:
    """A root is taken of a parameter that training takes to zero: its gradient is not finite."""
    broken = "a gradient is not finite at step 9, where the loss is 1.2"
    return at(subject, Fit, lambda fitted: Fitted(fitted.losses[:9], broken))
