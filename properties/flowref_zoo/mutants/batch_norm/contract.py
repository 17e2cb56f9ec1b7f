"""Defects of batch normalization in what it accepts, and in the names of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Life, Mapped, Subject, mutant
from flowref.model.steps import Normalize, Roles, Run, State
from flowref_zoo.mutants.batch_norm.combinators import IMAGE, Moment, at, moments
from flowref_zoo.mutants.combinators import Steps, wrapped

# Whether a call should be refused.
Fault = Callable[[Moment, Normalize | Run], bool]


def lenient(subject: Subject, fault: Fault, spoil: bool = False) -> Subject:
    """The subject in which calls that are faulty return zeros instead of raising, and ``spoil`` the
    running variance.
    """
    return wrapped(subject, "play", _forgiving, fault, spoil)


def _forgiving(
    play: Callable[..., Life], fault: Fault, spoil: bool, steps: Steps, fresh: bool = False
) -> Life:
    faults = [
        isinstance(step, Normalize | Run) and fault(moment, step)
        for moment, step in zip(moments(steps), steps, strict=True)
    ]
    healthy = [step for step, faulty in zip(steps, faults, strict=True) if not faulty]
    played, outcomes, spoilt = iter(play(healthy, fresh)), list[Any](), False
    for step, faulty in zip(steps, faults, strict=True):
        if faulty:
            spoilt = spoil
            outcomes.append(_zeros(step))
            continue
        out = next(played)
        if spoilt and isinstance(step, Roles):
            out = {**out, "running_var": np.full_like(out["running_var"], np.nan)}
        outcomes.append(out)
    return Life(steps, outcomes)


def _zeros(step: Any) -> Array | Mapped:
    value = np.zeros(np.shape(step.x))
    return Mapped(value, np.zeros(len(value))) if isinstance(step, Run) else value


def _one_value(moment: Moment, step: Normalize | Run) -> bool:
    shape = np.shape(step.x)
    return bool(moment.training and np.prod(shape) == shape[1])


@mutant("state/degenerate-batch[single-value]", host=IMAGE)
def single_value_taken(subject: Subject, size: float = 1.0) -> Subject:
    """One value per channel is normalized without a word."""
    return lenient(subject, _one_value)


@mutant("state/degenerate-batch[single-value]", host=IMAGE)
def single_value_spoils(subject: Subject, size: float = 1.0) -> Subject:
    """The unbiased variance of one value enters the running variance."""
    return lenient(subject, _one_value, spoil=True)


@mutant("shape/any-batch[batch-norm]", host=IMAGE)
def empty_batch_spoils(subject: Subject, size: float = 1.0) -> Subject:
    """The variance of no value enters the running variance."""
    return lenient(subject, lambda moment, step: moment.training and not len(step.x), spoil=True)


@mutant("shape/wrong-refused[channels]", host=IMAGE)
def one_channel_broadcast(subject: Subject, size: float = 1.0) -> Subject:
    """A batch of one channel is broadcast against the parameters."""
    return lenient(subject, lambda moment, step: step.x.shape[1] == 1)


@mutant("shape/wrong-refused[ranks]", host=IMAGE)
def rank_unchecked_in_evaluation(subject: Subject, size: float = 1.0) -> Subject:
    """The rank is looked at in train mode only."""
    return lenient(subject, lambda moment, step: not moment.training and step.x.ndim == 3)


@mutant("batch-norm/conventions[state-dict]", host=IMAGE)
def greek_names(subject: Subject, size: float = 1.0) -> Subject:
    """Weight and bias are called gamma and beta."""
    names = {"weight": "gamma", "bias": "beta"}

    def changed(moment: Moment, step: State, out: dict[str, Array]) -> dict[str, Array]:
        return {names.get(name, name): value for name, value in out.items()}

    return at(subject, State, changed)
