"""Defects of contributions and draws, put into healthy kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import (
    ladj_added,
    ladj_changed,
    ladj_multiplied,
    multiplied,
    value_changed,
    wrapped,
)


@mutant("density/mass[contribution]", host="reference:Abs", sizes=(0.05, 0.2, 1.0))
def halves_are_added(subject: Subject, size: float = 1.0) -> Subject:
    """What halving costs enters with the other sign, or with less than its size."""
    return ladj_changed(subject, "push", lambda v, x: (1 - 2 * size) * v)


@mutant("density/mass[contribution]", host="reference:Augment", sizes=(0.2, 1.0))
def noise_costs_nothing(subject: Subject, size: float = 1.0) -> Subject:
    """The density of added noise is left out, or counted in part."""
    return ladj_changed(subject, "push", lambda v, x: (1 - size) * v)


@mutant("density/mass[contribution]", host="reference:Sort")
def orders_are_not_counted(subject: Subject, size: float = 1.0) -> Subject:
    """The number of orders is left out."""
    return ladj_changed(subject, "push", lambda v, x: 0.0 * v)


@mutant("density/mass[contribution]", host="reference:Slice", sizes=(0.1, 0.3))
def slice_misses_a_constant(subject: Subject, size: float = 0.3) -> Subject:
    """The density of what is forgotten lacks a constant."""
    return ladj_added(subject, "push", size)


@mutant("kernel/follows-contribution[balance]", host="reference:Metropolis", sizes=(0.5, 1.0))
def one_weight_of_the_wrong_sign(subject: Subject, size: float = 1.0) -> Subject:
    """The path weight of forward is that of the step back, or half of its difference to that."""
    return ladj_multiplied(subject, "push", 1 - 2 * size)


@mutant("kernel/follows-contribution[balance]", host="reference:Langevin")
def weights_of_the_wrong_sign(subject: Subject, size: float = 1.0) -> Subject:
    """The noise of the step back is subtracted from that of the step, the wrong way round, in both
    directions.
    """
    return ladj_multiplied(ladj_multiplied(subject, "push", -1.0), "pull", -1.0)


@mutant("kernel/follows-contribution[balance]", host="reference:MaxPool", sizes=(0.1, 1.0))
def pooled_constant_is_missing(subject: Subject, size: float = 1.0) -> Subject:
    """A constant of the contribution is missing, in both directions."""
    return ladj_added(ladj_added(subject, "push", size), "pull", -size)


@mutant("density/mass[contribution]", host="reference:Metropolis", sizes=(1.0,))
def weight_is_counted_in_part(subject: Subject, size: float = 1.0) -> Subject:
    """The path weight is left out, or half of it."""
    return ladj_multiplied(subject, "push", 1 - size)


@mutant("density/mass[contribution]", host="reference:Langevin", sizes=(0.5, 1.0))
def langevin_is_counted_in_part(subject: Subject, size: float = 1.0) -> Subject:
    """Of the noise of both steps none counts, or half."""
    return ladj_multiplied(subject, "push", 1 - size)


@mutant("density/mass[contribution]", host="reference:RAD", sizes=(0.1, 1.0))
def gate_is_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """The share of the region is left out, as if all of it were there: here a constant log 3."""
    return ladj_added(subject, "push", size * float(np.log(3)))


@mutant("kernel/follows-contribution", host="reference:Slice", sizes=(0.3, 1.0))
def forgotten_entries_are_drawn_wider(subject: Subject, size: float = 0.3) -> Subject:
    """The inverse draws what was forgotten from a wider distribution than the contribution has."""
    return wrapped(subject, "pull", _wider, size)


@mutant("kernel/follows-contribution", host="reference:Abs")
def no_sign_is_drawn(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse of the absolute value is never negative."""
    return value_changed(subject, "pull", np.abs)


@mutant("kernel/follows-contribution", host="reference:RAD")
def one_side_is_drawn_more_often(subject: Subject, size: float = 1.0) -> Subject:
    """Data are drawn somewhat to the right of where the contributions put them."""
    return value_changed(subject, "pull", lambda x: x + 0.1)


@mutant("map/inverse[draws]", host="reference:Slice", sizes=(1e-9, 1e-3))
def forgotten_entries_leak(subject: Subject, size: float = 1e-3) -> Subject:
    """What is drawn moves what was kept."""
    return wrapped(subject, "pull", _leaking, size)


@mutant("map/inverse[draws]", host="reference:Augment")
def entries_in_another_order(subject: Subject, size: float = 1.0) -> Subject:
    """What is added comes first, where the way back looks for the data."""
    return wrapped(subject, "push", _rolled)


@mutant("map/inverse[draws]", host="reference:Abs")
def contribution_is_not_turned(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse returns the contribution of forward, with its sign."""
    return ladj_multiplied(subject, "pull", -1.0)


@mutant("random/seeded[no-draws]", host="reference:Abs", sizes=(1e-12, 1e-3))
def hidden_noise(subject: Subject, size: float = 1e-6) -> Subject:
    """A direction that says that it draws nothing adds a little noise."""
    return wrapped(subject, "push", _noisy, size)


@mutant("random/seeded[no-draws]", host="reference:Augment")
def a_generator_of_its_own(subject: Subject, size: float = 1.0) -> Subject:
    """It draws from a generator that no seed resets."""
    return wrapped(subject, "push", _unseeded, np.random.default_rng(0))


@mutant("gradient/parameters[contribution]", host="reference:Slice", sizes=(0.03, 0.3, 1.0))
def a_term_is_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A part of the contribution is not trained."""
    return wrapped(subject, "slope", _slower, size)


@mutant("gradient/parameters[contribution]", host="reference:Slice")
def no_number_in_the_parameters(subject: Subject) -> Subject:
    """A branch that is left out has an infinite gradient."""
    return multiplied(subject, "slope", math.nan)


@mutant("gradient/parameters[contribution]", host="reference:RAD")
def the_gate_is_trained_backward(subject: Subject, size: float = 2.0) -> Subject:
    """A straight-through share of a region has a gradient of the other sign."""
    return wrapped(subject, "slope", _slower, size)


@mutant("same/rows[contribution]", host="reference:Metropolis")
def one_decision_for_all(subject: Subject, size: float = 1.0) -> Subject:
    """A batch is accepted as a whole, where all of its rows would be."""
    return wrapped(subject, "push", _together)


@mutant("same/rows[contribution]", host="reference:Slice", sizes=(1e-6, 1e-2))
def mean_of_the_batch(subject: Subject, size: float = 1e-2) -> Subject:
    """Contributions lean toward their mean over the batch."""
    return ladj_changed(subject, "push", lambda v, x: (1 - size) * v + size * np.mean(v))


@mutant("kernel/follows-contribution[near-pairs]", host="reference:Slice", sizes=(0.3, 1.0))
def drawn_wider_than_weighed(subject: Subject, size: float = 0.3) -> Subject:
    """The inverse draws what was forgotten from a wider distribution than the contribution has."""
    return wrapped(subject, "pull", _wider, size)


@mutant("kernel/follows-contribution[near-pairs]", host="reference:Metropolis", sizes=(0.1, 0.3))
def weights_of_a_part(subject: Subject, size: float = 0.3) -> Subject:
    """The path weight has not its size: a part of the difference of energies is missing."""
    return ladj_multiplied(subject, "push", 1 - 2 * size)


@mutant("kernel/follows-contribution[near-pairs]", host="reference:Augment", sizes=(0.2, 1.0))
def weights_lean(subject: Subject, size: float = 1.0) -> Subject:
    """Contributions are too large on one side and too small on the other, so that their integral tells
    little.
    """
    return ladj_changed(subject, "push", lambda v, x: v + size * np.tanh(x[:, 0]))


@mutant(
    "kernel/follows-contribution[near-pairs]",
    host="flowref_zoo.specimens.surjective:variational_layer",
    sizes=(1.0,),
)
def the_mean_is_decoded(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse gives the mean of the decoder, or half of the noise around it."""
    return wrapped(subject, "pull", _calmer, size)


@mutant("random/rows-independent[contribution]", host="reference:Augment", sizes=(0.5, 1.0))
def noise_for_all_rows(subject: Subject, size: float = 1.0) -> Subject:
    """Many rows of a batch, or all, have the noise of the first."""
    return wrapped(subject, "push", _shared, size)


@mutant("random/rows-independent[contribution]", host="reference:Slice")
def noise_for_all_rows_backward(subject: Subject, size: float = 1.0) -> Subject:
    """All rows of a batch have the noise of the first on the way back."""
    return wrapped(subject, "pull", _shared, size)


@mutant("random/rows-independent[contribution]", host="reference:Metropolis")
def one_coin(subject: Subject, size: float = 1.0) -> Subject:
    """One uniform number decides for all rows of a batch."""
    return wrapped(subject, "push", _one_coin)


@mutant("map/finite[draws]", host="reference:Metropolis")
def nothing_times_infinity(subject: Subject, size: float = 1.0) -> Subject:
    """What is refused is multiplied by zero, where its energy may be infinite."""
    return wrapped(subject, "push", _masked)


def _together(call: Callable[..., Mapped], x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    moved = (np.asarray(out.value) != x).reshape(len(x), -1).any(1)
    return out if moved.all() else Mapped(x, 0 * np.asarray(out.ladj))


def _calmer(call: Callable[..., Mapped], size: float, z: Array, seed: int, *others: Any) -> Mapped:
    out = call(z, seed, *others)
    mean = np.mean([np.asarray(call(z, seed + 1 + k, *others).value) for k in range(8)], 0)
    return Mapped(mean + (1 - size) * (np.asarray(out.value) - mean), out.ladj)


def _shared(call: Callable[..., Mapped], size: float, x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    value = np.array(out.value, dtype=np.float64)
    many = int(size * len(x))
    if (x == x[:1]).all():
        value[:many] = value[:1]
    return Mapped(value, out.ladj)


def _one_coin(call: Callable[..., Mapped], x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    moved = (np.asarray(out.value) != x).reshape(len(x), -1).any(1)
    return out if moved[0] else Mapped(x, 0 * np.asarray(out.ladj))


def _masked(call: Callable[..., Mapped], x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    refused = (np.asarray(out.value) == x).reshape(len(x), -1).all(1)
    far = np.where(refused, np.inf, 0.0)
    with np.errstate(invalid="ignore"):
        return Mapped(np.asarray(out.value), np.asarray(out.ladj) + 0.0 * far)


def _leaking(call: Callable[..., Mapped], size: float, z: Array, seed: int, *others: Any) -> Mapped:
    out = call(z, seed, *others)
    value = np.array(out.value, dtype=np.float64)
    flat = value.reshape(len(value), -1)
    flat[:, 0] += size * flat[:, -1]
    return Mapped(value, out.ladj)


def _wider(call: Callable[..., Mapped], size: float, z: Array, seed: int, *others: Any) -> Mapped:
    out, other = call(z, seed, *others), call(z, seed + 1, *others)
    value, again = (np.array(one.value, dtype=np.float64) for one in (out, other))
    value[:, -1] += size * (value[:, -1] - again[:, -1])
    return Mapped(value, out.ladj)


def _rolled(call: Callable[..., Mapped], x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    return Mapped(np.roll(np.asarray(out.value), 1, axis=1), out.ladj)


def _noisy(call: Callable[..., Mapped], size: float, x: Array, seed: int, *others: Any) -> Mapped:
    out = call(x, seed, *others)
    value = np.asarray(out.value, dtype=np.float64)
    return Mapped(value + size * np.random.default_rng(seed).random(value.shape), out.ladj)


def _slower(call: Callable[..., float], size: float, *inputs: Any) -> float:
    return (1 - size) * call(*inputs)


def _unseeded(
    call: Callable[..., Mapped], rng: np.random.Generator, x: Array, seed: int, *others: Any
) -> Mapped:
    out = call(x, seed, *others)
    value = np.asarray(out.value, dtype=np.float64)
    return Mapped(value + 1e-3 * rng.random(value.shape), out.ladj)


@mutant(
    "gradient/input[contribution]", host="flowref_zoo.specimens.surjective:drop", sizes=(0.1, 1.0)
)
def partly_detached_in_x(subject: Subject, size: float = 1.0) -> Subject:
    """A term of the contribution, or all of it, has no graph back to the data."""
    return multiplied(subject, "vjp", 1 - size)


@mutant("gradient/input[contribution]", host="flowref_zoo.specimens.surjective:drop")
def no_number_in_x(subject: Subject) -> Subject:
    """A branch that is left out has an infinite gradient in the data."""
    return multiplied(subject, "vjp", math.nan)
