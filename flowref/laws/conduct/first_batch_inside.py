"""Initialization of inner layers by the first batch in train mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt, changed, flags
from flowref.laws.common.probes import Probe, probe_of
from flowref.laws.common.requirements import in_double, repeatable
from flowref.laws.conduct.train_mode import has_modes
from flowref.laws.conduct.training_batches import ordinary_rows, played
from flowref.model import (
    EXACT,
    GIVEN,
    Array,
    Batch,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Living
from flowref.model.steps import State, Trace, Train

# The factors that scale a first batch, and the tolerance of an integer exponent.
FACTORS, NEAR = (1.0, 4.0, 16.0), 0.25
# Relative rounding of sums in another order, or of an affine fit.
ROUNDED = 1e-6
# The largest number of layers that are judged.
LAYERS = 8


class LivingDensity(Density, Living, Protocol):
    """A log-density that can be called repeatedly."""


@requires("another law checks its forward map", blocked=False)
def density_alone(flow: Flow) -> bool:
    """With a forward map, first_batch_scale asks more."""
    return "forward" not in flow.calls


@law(
    "mode/first-batch[layers]",
    key="mode/first-batch-layers",
    applies=has_modes & repeatable & in_double & density_alone,
    tolerance=EXACT,
    history="fresh",
    effort=1,
    size=3,
    scales=GIVEN,
    source="Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), section 3.1: the first batch comes out with mean 0 and variance 1",
)
def first_batch_layers(flow: LivingDensity, batch: Batch) -> Residual:
    """If the first batch in train mode initializes parameters or buffers of a log-density, the
    output of a layer that holds them is unchanged, or scales linearly, under scaling of that
    batch.

    Judged are layers that are affine in each entry of their input, with one context for all rows.
    """
    if flow.domain.kind != "real":
        raise Unsupported("its domain is not all reals", blocked=False)
    asked = probe_with_one_context(flow, batch, "log_prob")
    again = asked.at(3.0 * asked.points[::-1] + 1.0)
    steps = [State(), Train(), asked.step(), State(), again.step(), State()]
    state, _, _, settled, _, later = played(flow, steps, fresh=True)
    names = changed(state, settled)
    if not names or changed(settled, later):
        raise Unsupported("its first batch does not initialize it", blocked=False)
    note = of_layers(flow, asked, names)
    return flags(bool(note), len(batch.x), note)


def probe_with_one_context(flow: Flow, batch: Batch, call: str) -> Probe:
    """A call at ordinary points, with one context for all of them."""
    rows = ordinary_rows(flow)
    x = draw_points(flow.domain, (rows, *flow.event_shape), np.random.default_rng(batch.seed))
    context = None if batch.context is None else np.repeat(batch.context[:1], rows, 0)
    return probe_of(flow, call, x, context)


class Ran(NamedTuple):
    """The input and output of a layer, one row per point."""

    entered: Array
    value: Array

    @property
    def spreads(self) -> tuple[Array, Array]:
        """The standard deviation of each entry of input and output."""
        return self.entered.std(0), self.value.std(0)

    @property
    def straight(self) -> bool:
        """Whether each output entry is a non-constant affine function of the same input entry."""
        x, y = self.entered, self.value
        if x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
            return False
        centered, spread = x - x.mean(0), x.std(0)
        if not (spread > 0).all():
            return False
        slope = (centered * y).mean(0) / spread**2
        rest = y - y.mean(0) - slope * centered
        return bool(np.abs(rest).max() <= ROUNDED * np.abs(y).max())


def of_layers(flow: Living, asked: Probe, tensors: Sequence[str]) -> str:
    """The error message for the response of layers to the scale of their first batch; empty if it
    is right. Layers are those that hold ``tensors``, given by name, which the batch changes.

    A layer is judged if its input scales with the batch and it is affine in each entry: its output
    is then unchanged, or scales linearly.
    """
    names = sorted({name.rpartition(".")[0] for name in tensors} - {""})[:LAYERS]
    runs = [first_layer_runs(flow, asked.at(factor * asked.points), names) for factor in FACTORS]
    for name in names:
        each = [one.get(name) for one in runs]
        if any(one is None for one in each):
            continue
        power = power_within([one for one in each if one is not None])
        if power is not None and min(abs(power), abs(power - 1)) > NEAR:
            return (
                f"the first output of its {name} grows as the power {power:.2g} of its first batch"
            )
    return ""


def first_layer_runs(flow: Living, asked: Probe, names: Sequence[str]) -> dict[str, Ran]:
    """The first run of the named layers in a first batch; empty if layers cannot be traced."""
    points, *others = asked.inputs
    trace = Trace(asked.name, points, others[0] if others else None, names)
    life, _ = attempt(flow.play, [Train(), trace], True)
    found: dict[str, Ran] = {}
    for run in life.of(trace) if life is not None else ():
        if run.name and run.name not in found and run.entered is not None:
            entered, value = (np.asarray(one, np.float64) for one in (run.entered, run.value))
            if len(entered) == len(points):
                found[run.name] = Ran(entered, value)
    return found


def power_within(runs: Sequence[Ran]) -> float | None:
    """The exponent with which the spread of all output entries grows with the input; None if the
    input is not a scaled batch, or exponents differ.
    """
    if not all(run.straight for run in runs):
        return None
    (before, behind), *others = (run.spreads for run in runs)
    powers = []
    for factor, (entered, value) in zip(FACTORS[1:], others, strict=True):
        if entered.shape != before.shape or not np.allclose(entered, factor * before, rtol=ROUNDED):
            return None
        if not (value > 0).all() or not (behind > 0).all():
            return None
        powers.append(np.log(value / behind) / np.log(factor))
    exponents = np.concatenate([one.ravel() for one in powers])
    return float(exponents.mean()) if np.ptp(exponents) <= NEAR else None
