"""Defects of batch normalization in running statistics, conventions and contracts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.laws.batch_norm.mutants import IMAGE, VECTOR, Moment, Steps, at, evaluated, moments
from flowref.model import Array, Mapped, Subject, mutant

STATISTICS = ("running_mean", "running_var")
# A step of a running statistic: old, the statistic of the batch, the momentum, the number of values
# -> new.
Recursion = Callable[[str, Array, Array, float, int], Array]


def recursed(
    play: Callable[..., list[Any]], recursion: Recursion, steps: Steps, fresh: bool = False
) -> list[Any]:
    """Play a scenario with running statistics that follow another recursion; every batch is
    followed by a step "roles".
    """
    outcomes = play(steps, fresh)
    true: dict[str, Array] = {}
    ours: dict[str, Array] = {}
    values, changed = 0, []
    for moment, out in zip(moments(steps), outcomes, strict=True):
        if moment.step[0] == "normalize" and moment.training:
            values = moment.step[1][:, 0].size
        if moment.step[0] != "roles" or any(out.get(name) is None for name in STATISTICS):
            changed.append(out)
            continue
        momentum = out["momentum"]
        for name in STATISTICS:
            if values and name in true:
                statistic = (out[name] - (1 - momentum) * true[name]) / momentum
                ours[name] = recursion(name, ours[name], statistic, momentum, values)
            true[name] = out[name]
            ours.setdefault(name, out[name])
        values = 0
        changed.append({**out, **ours})
    return changed


def recursing(subject: Subject, recursion: Recursion) -> Subject:
    """The subject with another recursion."""
    return replace(subject, play=partial(recursed, subject.play, recursion))


def _twice(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    once = old + momentum * (statistic - old)
    return once + momentum * (statistic - once)


def _swapped_variance(
    name: str, old: Array, statistic: Array, momentum: float, values: int
) -> Array:
    part = 1 - momentum if name == "running_var" else momentum
    return old + part * (statistic - old)


def _kept(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    return old + (1 - momentum) * (statistic - old)


def _biased(name: str, old: Array, statistic: Array, momentum: float, values: int) -> Array:
    factor = (values - 1) / values if name == "running_var" else 1.0
    return old + momentum * (factor * statistic - old)


@mutant("batch-norm/running-update", host=IMAGE)
def updated_twice(subject: Subject, size: float = 1.0) -> Subject:
    """Every batch enters the running statistics twice."""
    return recursing(subject, _twice)


@mutant("batch-norm/running-update", host=VECTOR)
def momentum_swapped_for_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The momentum is the factor of the new mean and of the old variance."""
    return recursing(subject, _swapped_variance)


def _roles(
    name: str, change: Callable[[Moment, Array, float], Array]
) -> Callable[[Moment, Any, float], Any]:
    return lambda moment, out, size: {**out, name: change(moment, np.asarray(out[name]), size)}


def _off_in_training(moment: Moment, value: Array, size: float) -> Array:
    return value * (1 + size) if moment.training else value


@mutant("batch-norm/running-update", host=IMAGE, sizes=(1e-9, 1e-3))
def running_variance_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The running variance is off."""
    return at(subject, "roles", _roles("running_var", _off_in_training), size)


def _falsy_momentum(
    play: Callable[..., list[Any]], size: float, steps: Steps, fresh: bool = False
) -> list[Any]:
    zero = any(step[:2] == ("assign", "momentum") and step[2] == 0 for step in steps)
    outcomes, seen = play(steps, fresh), False
    for place, step in enumerate(steps):
        seen |= step[0] == "normalize"
        if zero and seen and step[0] == "roles":
            outcomes[place] = {
                **outcomes[place],
                "running_mean": outcomes[place]["running_mean"] + size,
            }
    return outcomes


@mutant("batch-norm/momentum-limits", host=IMAGE, sizes=(1e-8, 1e-1))
def zero_momentum_is_none(subject: Subject, size: float = 1e-1) -> Subject:
    """A momentum of 0 is taken for none, and the default put in its place."""
    return replace(subject, play=partial(_falsy_momentum, subject.play, size))


@mutant("batch-norm/plain-average", host=f"{IMAGE}[momentum=None]", sizes=(1e-9, 1e-2))
def average_weighted(subject: Subject, size: float = 1e-2) -> Subject:
    """Batches enter the average with other weights."""
    return at(subject, "roles", _roles("running_mean", _off_in_training), size)


@mutant("batch-norm/average-warms-up", host=IMAGE, sizes=(1e-9, 1e-2))
def start_forgotten(subject: Subject, size: float = 1e-2) -> Subject:
    """The average of a new layer is off by a factor."""
    return at(subject, "roles", _roles("running_mean", _off_in_training), size)


@mutant("batch-norm/batch-counter", host=IMAGE)
def counted_in_evaluation(subject: Subject, size: float = 1.0) -> Subject:
    """Batches are counted in eval mode."""

    def change(moment: Moment, value: Array, size: float) -> Array:
        return value if moment.training else value + 1

    return at(subject, "roles", _roles("num_batches", change), size)


def _bare_training(
    play: Callable[..., list[Any]], size: float, steps: Steps, fresh: bool = False
) -> list[Any]:
    bare = any(step[0] == "normalize" and step[2:] == ("no_grad",) for step in steps)
    return [
        {**out, "running_mean": out["running_mean"] + size} if bare and step[0] == "roles" else out
        for step, out in zip(steps, play(steps, fresh), strict=True)
    ]


@mutant("batch-norm/updates-without-gradients", host=IMAGE, sizes=(1e-9, 1e-2))
def other_update_without_gradients(subject: Subject, size: float = 1e-2) -> Subject:
    """Under no_grad running statistics move otherwise."""
    return replace(subject, play=partial(_bare_training, subject.play, size))


def _normalized_without_gradients(moment: Moment, y: Array, size: float) -> Array:
    return y * (1 + size) if moment.training and moment.how == "no_grad" else y


@mutant("batch-norm/updates-without-gradients", host=IMAGE, sizes=(1e-9, 1e-2))
def mode_is_gradients(subject: Subject, size: float = 1e-2) -> Subject:
    """Under no_grad a train-mode pass is normalized otherwise."""
    return at(subject, "normalize", _normalized_without_gradients, size)


@mutant("batch-norm/eval-approaches-train", host=IMAGE, sizes=(0.5, 4.0))
def evaluation_elsewhere(subject: Subject, size: float = 0.5) -> Subject:
    """In eval mode the running variance is taken for the standard deviation, or forgotten: the
    output has another size.
    """
    return at(subject, "normalize", evaluated(lambda x, y, s: y * (1 + s)), size)


@mutant("batch-norm/momentum-convention", host=IMAGE)
def momentum_keeps(subject: Subject, size: float = 1.0) -> Subject:
    """The momentum is the factor of the old value, and nothing says so."""
    return recursing(subject, _kept)


@mutant("batch-norm/running-variance-convention", host=IMAGE)
def biased_running_variance(subject: Subject, size: float = 1.0) -> Subject:
    """The running variance averages biased variances, and nothing says so."""
    return recursing(subject, _biased)


@mutant("batch-norm/initial-values", host=IMAGE)
def variance_from_zero(subject: Subject, size: float = 1.0) -> Subject:
    """The running variance starts at 0."""
    return at(subject, "roles", _roles("running_var", lambda moment, value, size: 0 * value), size)


@mutant("batch-norm/eval-before-training", host=IMAGE, sizes=(1e-9, 300.0))
def untrained_layer_explodes(subject: Subject, size: float = 300.0) -> Subject:
    """Before training the output in eval mode is too large, as where the running variance starts at
    0.
    """
    return at(subject, "normalize", evaluated(lambda x, y, s: y * (1 + s)), size)


@mutant("batch-norm/state-dict-keys", host=IMAGE)
def greek_names(subject: Subject, size: float = 1.0) -> Subject:
    """Weight and bias are called gamma and beta."""
    names = {"weight": "gamma", "bias": "beta"}

    def change(moment: Moment, out: dict[str, Array], size: float) -> dict[str, Array]:
        return {names.get(name, name): value for name, value in out.items()}

    return at(subject, "state", change, size)


Fault = Callable[[Moment], bool]


def forgiving(
    play: Callable[..., list[Any]], fault: Fault, spoil: bool, steps: Steps, fresh: bool = False
) -> list[Any]:
    """Play a scenario in which calls that are faulty return zeros instead of raising, and spoil
    what is held if they do.
    """
    faults = [
        moment.step[0] in ("normalize", "call") and fault(moment) for moment in moments(steps)
    ]
    if not any(faults):
        return play(steps, fresh)
    kept = [step for step, faulty in zip(steps, faults, strict=True) if not faulty]
    played, outcomes, spoilt = iter(play(kept, fresh)), [], False
    for step, faulty in zip(steps, faults, strict=True):
        if faulty:
            spoilt = spoil
            value = np.zeros(np.shape(step[2] if step[0] == "call" else step[1]))
            outcomes.append(Mapped(value, np.zeros(len(value))) if step[0] == "call" else value)
            continue
        out = next(played)
        if spoilt and step[0] == "roles":
            out = {**out, "running_var": np.full_like(out["running_var"], np.nan)}
        outcomes.append(out)
    return outcomes


def lenient(subject: Subject, fault: Fault, spoil: bool = False) -> Subject:
    """The subject with lenient calls."""
    return replace(subject, play=partial(forgiving, subject.play, fault, spoil))


def _one_value(moment: Moment) -> bool:
    return bool(
        moment.training and np.prod(np.shape(moment.step[1])) == np.shape(moment.step[1])[1]
    )


@mutant("batch-norm/single-value-refused", host=IMAGE)
def single_value_taken(subject: Subject, size: float = 1.0) -> Subject:
    """One value per channel is normalized without a word."""
    return lenient(subject, _one_value)


@mutant("batch-norm/single-value-keeps-statistics", host=IMAGE)
def single_value_spoils(subject: Subject, size: float = 1.0) -> Subject:
    """The unbiased variance of one value enters the running variance."""
    return lenient(subject, _one_value, spoil=True)


@mutant("batch-norm/empty-batch", host=IMAGE)
def empty_batch_spoils(subject: Subject, size: float = 1.0) -> Subject:
    """The variance of no value enters the running variance."""
    return lenient(subject, lambda moment: moment.training and not len(moment.step[1]), spoil=True)


@mutant("batch-norm/channel-count", host=IMAGE)
def one_channel_broadcast(subject: Subject, size: float = 1.0) -> Subject:
    """A batch of one channel is broadcast against the parameters."""
    return lenient(subject, lambda moment: moment.step[1].shape[1] == 1)


@mutant("batch-norm/ranks", host=IMAGE)
def rank_unchecked_in_evaluation(subject: Subject, size: float = 1.0) -> Subject:
    """The rank is looked at in train mode only."""
    return lenient(subject, lambda moment: not moment.training and moment.step[1].ndim == 3)
