"""Defects of conditioners and of the start of couplings, put into the lives of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Bend, Learn, Parameters, Run, Step, Train, Trained
from flowref_zoo.mutants.combinators import Steps, at, living, shifted

NFLOWS, CHECKERBOARD = "nflows:AffineCouplingTransform", "reference:AffineCoupling[checkerboard]"
# A step and its outcome -> another outcome.
Change = Callable[[Step[Any], Any], Any]


def bent(subject: Subject, how: str, change: Change) -> Subject:
    """The subject with the outcomes of its lives changed where they begin by bending the
    conditioner in this way.
    """
    return living(subject, partial(_once_bent, how, change))


def _once_bent(how: str, change: Change, steps: Steps, outcomes: list[Any]) -> list[Any]:
    first = steps[0]
    if not isinstance(first, Bend) or first.how != how:
        return outcomes
    return [change(step, out) for step, out in zip(steps, outcomes, strict=True)]


def _inverse_off(size: float, step: Step[Any], out: Any) -> Any:
    return shifted(out, size) if isinstance(step, Run) and step.call == "inverse" else out


@mutant("map/inverse[conditioner]", host=NFLOWS, sizes=(1e-8, 1e-2))
def inverse_differentiates_the_conditioner(subject: Subject, size: float = 1e-2) -> Subject:
    """With a conditioner that has no derivative the inverse is off."""
    return bent(subject, "folded", partial(_inverse_off, size))


def _together(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    return [
        out + size if isinstance(step, Parameters) and len(step.x) > 1 else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("same/rows[conditioner]", host=NFLOWS, sizes=(1e-9, 1e-2))
def statistics_of_the_batch(subject: Subject, size: float = 1e-2) -> Subject:
    """The conditioner gives other parameters for a sample alone."""
    return living(subject, partial(_together, size))


def _together_in_train(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    return _together(size, steps, outcomes) if isinstance(steps[0], Train) else outcomes


@mutant("same/rows-in-train[conditioner]", host=NFLOWS, sizes=(1e-9, 1e-2))
def batch_norm_in_the_conditioner(subject: Subject, size: float = 1e-2) -> Subject:
    """In train mode the conditioner gives other parameters for a sample alone."""
    return living(subject, partial(_together_in_train, size))


def _nan_values(step: Step[Any], out: Any) -> Any:
    if not isinstance(step, Run):
        return out
    return Mapped(np.full(np.shape(out.value), np.nan), out.ladj)


@mutant("coupling/pattern[kept-parameters]", host=CHECKERBOARD)
def masked_after_the_exponential(subject: Subject, size: float = 1.0) -> Subject:
    """The exponential of a kept entry's scale is multiplied by zero, which is nan where it is
    infinite.
    """
    return bent(subject, "kept", _nan_values)


def _nan_gradients(step: Step[Any], out: Any) -> Any:
    if not isinstance(step, Learn):
        return out
    gradients = {name: None if g is None else g * np.nan for name, g in out.gradients.items()}
    return replace(out, gradients=gradients)


@mutant("coupling/pattern[kept-parameters]", host=CHECKERBOARD)
def selected_after_the_exponential(subject: Subject, size: float = 1.0) -> Subject:
    """Values are selected after the exponential, so that gradients are 0 times inf."""
    return bent(subject, "kept", _nan_gradients)


@mutant("coupling/identity-init", host=CHECKERBOARD, sizes=(1e-10, 1e-2))
def starts_elsewhere(subject: Subject, size: float = 1e-2) -> Subject:
    """The last layer of the conditioner does not start at zero."""
    return at(subject, Run, lambda out: shifted(out, size))


def _without_gradient(names: slice, out: Trained) -> Trained:
    dead = list(out.gradients)[names]
    gradients = {name: None if name in dead else g for name, g in out.gradients.items()}
    return replace(out, gradients=gradients)


@mutant("gradient/reaches-parameters[conditioner-start]", host=NFLOWS)
def conditioner_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """No gradient ever reaches the conditioner."""
    return at(subject, Learn, partial(_without_gradient, slice(None)))


def _same_log_dets(out: Mapped) -> Mapped:
    return out if out.ladj is None else Mapped(out.value, np.zeros_like(out.ladj))


@mutant("gradient/reaches-parameters[conditioner-start]", host=CHECKERBOARD)
def two_zeros_multiplied(subject: Subject, size: float = 1.0) -> Subject:
    """The learned scale and what it multiplies both start at zero, and stay there."""
    return at(subject, Run, _same_log_dets)


@mutant("gradient/reaches-parameters", host=NFLOWS)
def a_layer_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """One parameter of the conditioner never has a gradient."""
    return at(subject, Learn, partial(_without_gradient, slice(0, 1)))
