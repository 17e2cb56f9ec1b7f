"""One map in both modes: if train mode does not change the values of forward, it changes nothing
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from flowref.laws.bijection.roundtrip import inverse_tolerance
from flowref.laws.common.arithmetic import finite_rows, invertible_images, reported, rows_max
from flowref.laws.common.outcomes import attempt, changed
from flowref.laws.common.probes import DRAWING, Probe, probe_of, probes
from flowref.laws.common.requirements import exact_log_det, repeatable
from flowref.model import (
    EXACT,
    GIVEN,
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Bijection, Density, Flow, Invertible, Living, offers
from flowref.model.steps import Eval, State, Train


class LivingBijection(Bijection, Living, Protocol):
    """A map that can be called repeatedly."""


class LivingDensity(Density, Living, Protocol):
    """A density that can be called repeatedly."""


DENSITIES = ("log_prob", "base_log_prob", "bits_per_dim")

ESTIMATE = "in train mode its log-det is an estimate with new random numbers in each call"
# Kernels may group the computation differently in the two modes (torch multiplies by a matrix that
# records gradients in another order): this many units in the last place are no difference.
SLACK = 64
# The share of a difference between modes that may remain after a train-mode call has updated the
# state.
SETTLED = 0.1
# Relative error up to which values count as equal.
SAME = {"float64": 1e-9, "float32": 1e-5}


@requires("it has no modes")
def has_modes(flow: Flow) -> bool:
    """Only modules have modes."""
    return flow.stateful


@requires("its inverse normalizes by the batch in train mode")
def inverts_alike(flow: Flow) -> bool:
    """The inverse does not normalize by the batch."""
    normalizer = flow.facts.normalizer
    return normalizer is None or normalizer.call != "inverse"


def call_in_train_mode(probe: Probe) -> Mapped:
    """A call in train mode. Raises `Unsupported` if it raises, which is no violation."""
    try:
        return probe(how="train")
    except Exception as error:
        name = type(error).__name__
        raise Unsupported(f"its {probe.name} is refused in train mode: {name}") from error


# Number of calls, since random signs of one row often agree.
STILL, DRAWN = 1e-6, 1e-3
DRAWS = 20


def drawn_anew(flow: Living, batch: Batch) -> bool:
    """Whether repeated calls in train mode return the same values with different log-dets:
    estimates with probes that are exact in eval mode. The first call may initialize, and a power
    iteration may move values by much less than estimates vary.
    """
    run = probe_of(flow, "forward", batch.x, batch.context).step(draws=None)
    played, _ = attempt(flow.play, [Train(), *[run] * DRAWS])
    if played is None or any(one.ladj is None for one in played[2:]):
        return False
    first, *others = played[2:]
    alike = [np.array_equal(first.value, one.value, equal_nan=True) for one in others]
    other = [not np.array_equal(first.ladj, one.ladj, equal_nan=True) for one in others]
    near = [np.allclose(first.value, one.value, STILL, STILL, True) for one in others]
    apart = [not np.allclose(first.ladj, one.ladj, DRAWN, DRAWN, True) for one in others]
    return (all(alike) and any(other)) or (all(near) and any(apart))


def both(flow: Bijection, batch: Batch) -> tuple[Mapped, Mapped, Array]:
    """Forward in eval and in train mode, and where the values are bitwise equal, ``(n,)``. Raises
    `Unsupported` if most points differ: a few may round to the same.
    """
    first = flow.forward(batch.x, batch.context)
    second = call_in_train_mode(probe_of(flow, "forward", batch.x, batch.context))
    same = np.zeros(len(first.value), dtype=bool)
    if first.value.shape == second.value.shape:
        same = (first.value == second.value).reshape(len(same), -1).all(1)
    finite = finite_rows(first.value, second.value) if same.any() else same
    if 2 * int(same.sum()) < max(1, int(finite.sum())):
        raise Unsupported("training changes the map itself")
    return first, second, same


def excess_over_rounding(flow: Flow, difference: Array, size: Array) -> Array:
    """The part of a difference above a few units in the last place; nan stays nan."""
    unit = float(np.finfo(flow.dtype).eps) / 2
    excess = np.abs(difference) - SLACK * unit * size.reshape(-1, *[1] * (difference.ndim - 1))
    return np.where(excess > 0, excess, 0.0 * excess)


@law(
    "same/train-mode[log-det]",
    key="mode/train-log-det",
    version=2,
    about=VOLUME,
    applies=has_modes & exact_log_det,
    tolerance=EXACT,
    effort=4,
)
def train_log_det(flow: Bijection, batch: Batch) -> Residual:
    """Where forward returns the same value in train and eval mode, it returns the same log-det,
    unless that is random in train mode.
    """
    evaluated, trained, same = both(flow, batch)
    first, second = (reported(flow, out, len(batch.x)) for out in (evaluated, trained))
    if not np.array_equal(first, second) and offers(flow, Living) and drawn_anew(flow, batch):
        raise Undecidable(ESTIMATE)
    return Residual(
        excess_over_rounding(
            flow, first - second, 4 + np.where(np.isfinite(first), np.abs(first), 0.0)
        ),
        decidable=same & finite_rows(evaluated.value, first),
        nats=first - second,
        observed={"in eval mode": first, "in train mode": second},
    )


def settles(flow: Living, probe: Probe, evaluated: Mapped, trained: Mapped) -> bool:
    """Whether eval mode returns nearly the same as a train-mode call before it: that call
    continued an iteration which is stored.
    """
    run = probe.step()
    played, _ = attempt(flow.play, [Train(), run, Eval(), run])
    if played is None or played[-1].value.shape != trained.value.shape:
        return False
    before, after = (np.abs(one.value - trained.value) for one in (evaluated, played[-1]))
    return bool(np.nanmax(after, initial=0.0) < SETTLED * np.nanmax(before, initial=0.0))


@law(
    "same/train-mode[inverse]",
    key="mode/train-inverse",
    version=4,
    applies=has_modes & repeatable & inverts_alike,
    tolerance=EXACT,
    effort=4,
)
def train_inverse(flow: Invertible, batch: Batch) -> Residual:
    """Where forward returns the same value in train and eval mode, so does inverse, unless it
    depends on state that train-mode calls update, such as an iteration for a spectral norm.

    A declared tolerance is allowed: a solver that integrates a penalty in train mode chooses other
    steps.
    """
    evaluated, _, same = both(flow, batch)
    z, usable = invertible_images(flow, evaluated.value)
    first = flow.inverse(z, batch.context)
    probe = probe_of(flow, "inverse", z + 0.0, batch.context)
    second = call_in_train_mode(probe)
    off = excess_over_rounding(
        flow, first.value - second.value, rows_max(z) + rows_max(first.value)
    )
    allowed = inverse_tolerance(flow, first.value).reshape(-1, *[1] * (off.ndim - 1))
    off = np.where(off > allowed, off, 0.0 * off)
    if (off > 0).any() and offers(flow, Living) and settles(flow, probe, first, second):
        raise Unsupported("its inverse depends on state that calls in train mode update")
    return Residual(
        off,
        decidable=same & usable & finite_rows(first.value),
        observed={"in eval mode": first.value, "in train mode": second.value},
    )


@law(
    "same/train-mode[first-call]",
    key="mode/first-log-det",
    version=2,
    about=VOLUME,
    applies=has_modes & exact_log_det,
    tolerance=EXACT,
    history="fresh",
    effort=2,
    size=16,
    scales=GIVEN,
    source="a layer that its first batch initializes has the log-det of its new weights",
)
def first_log_det(flow: LivingBijection, batch: Batch) -> Residual:
    """If the first call of a new object, in train mode, returns the value of the next one in eval
    mode, both return the same log-det, unless that is random in train mode.
    """
    run = probe_of(flow, "forward", batch.x, batch.context).step()
    played, error = attempt(flow.play, [Train(), run, Eval(), run], fresh=True)
    if played is None:
        raise Unsupported(f"it refuses to begin in train mode ({error})")
    trained, evaluated = played[1], played[3]
    same = np.zeros(len(batch.x), dtype=bool)
    if trained.value.shape == evaluated.value.shape and len(trained.value) == len(same):
        same = (trained.value == evaluated.value).reshape(len(same), -1).all(1)
    if 2 * same.sum() <= len(same):  # another map may agree at some points
        raise Unsupported("its first call in train mode is a different map")
    first, second = (reported(flow, out, len(batch.x)) for out in (trained, evaluated))
    if not np.array_equal(first, second) and drawn_anew(flow, batch):
        raise Undecidable(ESTIMATE)
    return Residual(
        excess_over_rounding(
            flow, first - second, 4 + np.where(np.isfinite(second), np.abs(second), 0.0)
        ),
        decidable=same & finite_rows(evaluated.value, second),
        observed={"at first, in train mode": first, "then, in eval mode": second},
    )


@law(
    "same/train-mode[density]",
    key="mode/train-density",
    version=2,
    applies=has_modes & exact_log_det,
    tolerance=EXACT,
    effort=2,
    scales=NEARBY,
    source="a model that is trained on another density than it is evaluated by",
)
def train_density(flow: LivingDensity, batch: Batch) -> Residual:
    """If forward and inverse, or the samples without a map, are the same in train and eval mode,
    so are log_prob, the base and bits per dimension, unless in train mode they are random, couple
    points or write state.
    """
    rows = len(batch.x)
    seen = ("forward", "inverse") if "forward" in flow.calls else DRAWING
    witnesses = (
        probes(flow, batch, complete=False, calls=seen) if seen_in(flow, batch, seen) else []
    )
    if not witnesses:
        raise Unsupported("it offers neither a map nor samples to compare", blocked=False)
    for probe in witnesses:
        if not np.array_equal(probe().value, call_in_train_mode(probe).value, equal_nan=True):
            raise Unsupported("training changes the map itself")
    gaps, good = np.zeros(rows), np.zeros(rows, dtype=bool)
    for probe in probes(flow, batch, complete=False, calls=DENSITIES):
        first, (second, error) = probe(), attempt(call_in_train_mode, probe)
        if error or np.shape(first.value) != np.shape(second.value):
            continue
        if random_in_training(flow, probe) or (seen is DRAWING and coupled(flow, probe)):
            continue
        apart = excess_over_rounding(
            flow, first.value - second.value, 4 + np.abs(np.asarray(first.value))
        )
        known = np.atleast_1d(np.isfinite(first.value))
        if len(known) == rows:  # bits per dimension may be one number for all
            gaps = np.maximum(gaps, np.where(known, apart, 0.0).reshape(rows, -1).max(1))
            good |= known.reshape(rows, -1).all(1)
    if not good.any():
        raise Unsupported("its log-density is refused or random in train mode")
    return Residual(gaps, decidable=good, note="of the log-density or bits per dimension")


def seen_in(flow: LivingDensity, batch: Batch, calls: Sequence[str]) -> bool:
    """Whether the calls exist, and need no context if they draw."""
    return any(one in flow.calls for one in calls) and (
        calls is not DRAWING or batch.context is None
    )


def coupled(flow: LivingDensity, probe: Probe) -> bool:
    """Whether a call in train mode writes state, or returns something else for fewer points."""
    life, error = attempt(flow.play, [Train(), State(), probe.step(), State()])
    if error or changed(life[1], life[3]):
        return True
    value, half = np.asarray(life[2].value), max(len(probe.points) // 2, 1)
    few, error = attempt(call_in_train_mode, probe.rows(slice(half)))
    if error or np.shape(value)[:1] != (len(probe.points),):
        return True
    same = SAME[flow.dtype]
    return not np.allclose(few.value, value[:half], rtol=same, atol=same, equal_nan=True)


def random_in_training(flow: LivingDensity, probe: Probe) -> bool:
    """Whether a call is random in train mode, as with dequantization."""
    steps = [Train(), probe.step(draws=1), Train(), probe.step(draws=2)]
    life, error = attempt(flow.play, steps)
    return bool(error) or not np.array_equal(life[1].value, life[3].value, equal_nan=True)
