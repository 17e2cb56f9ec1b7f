"""Defects of conditioners and of the start of couplings, put into the scenarios that a healthy
subject plays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant

NFLOWS, CHECKERBOARD = "nflows:AffineCouplingTransform", "reference:AffineCoupling[checkerboard]"
Steps = Sequence[tuple[Any, ...]]
Change = Callable[[Steps, int, Any, float], Any]


def playing(
    play: Callable[..., list[Any]], change: Change, size: float, steps: Steps, fresh: bool = False
) -> list[Any]:
    """Play a scenario with its outcomes changed; a change is given the scenario, the place of the
    step and its outcome.
    """
    return [change(steps, place, outcome, size) for place, outcome in enumerate(play(steps, fresh))]


def altered(subject: Subject, change: Change, size: float) -> Subject:
    """The subject with changed outcomes of its scenarios."""
    return replace(subject, play=partial(playing, subject.play, change, size))


def _shifted(out: Mapped, size: float) -> Mapped:
    return Mapped(np.asarray(out.value) + size, out.ladj)


def _inverse_off(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    folded = steps[0][:2] == ("bend", "folded") and steps[place][:2] == ("call", "inverse")
    return _shifted(outcome, size) if folded else outcome


@mutant("coupling/any-conditioner", host=NFLOWS, sizes=(1e-8, 1e-2))
def inverse_differentiates_the_conditioner(subject: Subject, size: float = 1e-2) -> Subject:
    """With a conditioner that has no derivative the inverse is off."""
    return altered(subject, _inverse_off, size)


def _together(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    step = steps[place]
    return outcome + size if step[0] == "parameters" and len(step[2]) > 1 else outcome


@mutant("coupling/conditioner-batch-free", host=NFLOWS, sizes=(1e-9, 1e-2))
def statistics_of_the_batch(subject: Subject, size: float = 1e-2) -> Subject:
    """The conditioner gives other parameters for a sample alone."""
    return altered(subject, _together, size)


def _together_in_train(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    return _together(steps, place, outcome, size) if ("train",) in steps[:place] else outcome


@mutant("coupling/conditioner-batch-free-in-train", host=NFLOWS, sizes=(1e-9, 1e-2))
def batch_norm_in_the_conditioner(subject: Subject, size: float = 1e-2) -> Subject:
    """In train mode the conditioner gives other parameters for a sample alone."""
    return altered(subject, _together_in_train, size)


def _nan_after_exponential(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    bent = steps[0][:2] == ("bend", "kept") and steps[place][0] == "call"
    return Mapped(np.full(np.shape(outcome.value), np.nan), outcome.ladj) if bent else outcome


@mutant("coupling/kept-parameters-inert", host=CHECKERBOARD)
def masked_after_the_exponential(subject: Subject, size: float = 1.0) -> Subject:
    """The exponential of a kept entry's scale is multiplied by zero, which is nan where it is
    infinite.
    """
    return altered(subject, _nan_after_exponential, size)


def _nan_gradients(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    if steps[0][:2] != ("bend", "kept") or steps[place][0] != "step":
        return outcome
    gradients = {
        name: None if g is None else g * np.nan for name, g in outcome["gradients"].items()
    }
    return {**outcome, "gradients": gradients}


@mutant("coupling/kept-parameters-inert", host=CHECKERBOARD)
def selected_after_the_exponential(subject: Subject, size: float = 1.0) -> Subject:
    """Values are selected after the exponential, so that gradients are 0 times inf."""
    return altered(subject, _nan_gradients, size)


def _first_call_off(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    return _shifted(outcome, size) if steps[place][0] == "call" else outcome


@mutant("coupling/identity-init", host=CHECKERBOARD, sizes=(1e-10, 1e-2))
def starts_elsewhere(subject: Subject, size: float = 1e-2) -> Subject:
    """The last layer of the conditioner does not start at zero."""
    return altered(subject, _first_call_off, size)


def _without_gradient(names: slice, steps: Steps, place: int, outcome: Any, size: float) -> Any:
    if steps[place][0] != "step":
        return outcome
    dead = list(outcome["gradients"])[names]
    gradients = {
        name: None if name in dead else gradient for name, gradient in outcome["gradients"].items()
    }
    return {**outcome, "gradients": gradients}


@mutant("coupling/init-not-dead", host=NFLOWS)
def conditioner_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """No gradient ever reaches the conditioner."""
    return altered(subject, partial(_without_gradient, slice(None)), size)


def _same_log_dets(steps: Steps, place: int, outcome: Any, size: float) -> Any:
    if steps[place][0] != "call" or outcome.ladj is None:
        return outcome
    return Mapped(outcome.value, np.zeros_like(outcome.ladj))


@mutant("coupling/init-not-dead", host=CHECKERBOARD)
def two_zeros_multiplied(subject: Subject, size: float = 1.0) -> Subject:
    """The learned scale and what it multiplies both start at zero, and stay there."""
    return altered(subject, _same_log_dets, size)


@mutant("coupling/every-parameter-learns", host=NFLOWS)
def a_layer_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """One parameter of the conditioner never has a gradient."""
    return altered(subject, partial(_without_gradient, slice(0, 1)), size)
