"""Defects of modes, put into the lives and calls of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Manner, Mapped, Subject, mutant
from flowref.model.steps import Eval, Run, State, Step, Train
from flowref_zoo.mutants.combinators import (
    Asked,
    Remade,
    Steps,
    after,
    answered,
    at,
    living,
    mannered,
    moved,
    refusing,
    shifted,
    shifted_where,
    where,
)

COUPLING = "nflows:AffineCouplingTransform"
NORMALIZER = "nflows:BatchNorm"


@mutant("mode/protocol", host=COUPLING)
def eval_returns_nothing(subject: Subject, size: float = 1.0) -> Subject:
    """An overridden eval() forgets to return the module."""
    return at(subject, Eval, lambda change: replace(change, returned_self=False))


@mutant("mode/protocol", host=COUPLING)
def eval_misses_a_part(subject: Subject, size: float = 1.0) -> Subject:
    """A submodule kept in a plain list stays in train mode after eval()."""
    return at(subject, Eval, lambda change: replace(change, recursed=False))


@mutant("mode/protocol", host=COUPLING)
def train_shadowed(subject: Subject, size: float = 1.0) -> Subject:
    """A flag named ``train`` hides the method of that name."""
    return refusing(subject, Train, TypeError("'bool' object is not callable"))


def _without_gradients(asked: Asked) -> bool:
    return asked.manner.how in ("no_grad", "inference_mode")


@mutant("same/manner[grad-modes]", host=COUPLING, sizes=(1e-6, 1e-3))
def mode_is_gradient_recording(subject: Subject, size: float = 1e-3) -> Subject:
    """Whether gradients are recorded decides which statistics are used
    (``mode = torch.is_grad_enabled()``).
    """
    return shifted_where(subject, _without_gradients, size)


def _bare(step: Step[Any]) -> bool:
    return isinstance(step, Run) and step.how == "no_grad"


@mutant("same/manner[train-grad-modes]", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_training_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad uses the running statistics."""
    return living(subject, partial(where, _bare, partial(shifted, size=size)))


def _frozen_statistics(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    if not any(map(_bare, steps)):
        return outcomes
    return where(lambda step: isinstance(step, State), partial(moved, size=size), steps, outcomes)


@mutant("same/manner[train-grad-modes]", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_update_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad updates the running statistics differently."""
    return living(subject, partial(_frozen_statistics, size))


def _turned(
    inverse: Callable[..., Mapped], call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    if manner.how == "train" and name == "forward":
        return inverse(*inputs)
    return call(inputs, manner)


@mutant("same/train-mode[direction]", host=COUPLING)
def train_is_a_direction(subject: Subject, size: float = 1.0) -> Subject:
    """The training flag chooses the direction."""
    return mannered(subject, partial(_turned, subject.calls["inverse"]))


@mutant("effects/state[eval]", host=NORMALIZER, sizes=(1e-12, 1e-3))
def statistics_move_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are updated during validation."""
    return after(subject, Run, State, partial(moved, size=size))


@mutant("effects/state[first-call]", host=NORMALIZER, sizes=(1e-12, 1e-3))
def initialized_by_validation(subject: Subject, size: float = 1e-3) -> Subject:
    """The first batch initializes the layer, whatever the mode."""
    return after(subject, Run, State, partial(moved, size=size))


def _coupled(size: float, out: Mapped, asked: Asked) -> Mapped:
    return shifted(out, size * float(np.nanmean(np.clip(asked.inputs[0], -10.0, 10.0))))


@mutant("same/rows", host=COUPLING, sizes=(1e-8, 1e-3))
def batch_statistics_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean of the batch enters every point."""
    return answered(subject, partial(_coupled, size))


def _summed(out: Mapped, asked: Asked) -> Mapped:
    return out if out.ladj is None else Mapped(out.value, float(np.sum(out.ladj)))


@mutant("same/rows", host=COUPLING)
def log_det_summed_over_batch(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is summed over the batch as well as over the event."""
    return answered(subject, _summed)
