"""What the first batch in train mode makes of layers within a flow that it initializes."""

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

# The factors by which a first batch is larger, and how far a power may be from a whole number.
FACTORS, NEAR = (1.0, 4.0, 16.0), 0.25
# The share of an output that the rounding of sums in another order may move, or a line may leave.
ROUNDED = 1e-6
# Layers that are looked into.
LAYERS = 8


class LivingDensity(Density, Living, Protocol):
    """A log-density that can be played."""


@requires("its forward is asked", waits=False)
def density_alone(flow: Flow) -> bool:
    """Of a map another law asks the same, and more."""
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
    """Of a log-density of which the first batch in train mode sets parameters or buffers for good, what a
    layer that holds them gives stays the same where a batch is several times as large, or grows likewise.

    Layers are judged of which each entry is a line in what enters it. Contexts are one for all rows.
    """
    if flow.domain.kind != "real":
        raise Unsupported("its domain is not all reals", waits=False)
    asked = probe_with_one_context(flow, batch, "log_prob")
    again = asked.at(3.0 * asked.points[::-1] + 1.0)
    steps = [State(), Train(), asked.step(), State(), again.step(), State()]
    state, _, _, settled, _, later = played(flow, steps, fresh=True)
    names = changed(state, settled)
    if not names or changed(settled, later):
        raise Unsupported("its first batch does not initialize it", waits=False)
    note = of_layers(flow, asked, names)
    return flags(bool(note), len(batch.x), note)


def probe_with_one_context(flow: Flow, batch: Batch, call: str) -> Probe:
    """A call at ordinary points, with one context for all of them."""
    rows = ordinary_rows(flow)
    x = draw_points(flow.domain, (rows, *flow.event_shape), np.random.default_rng(batch.seed))
    context = None if batch.context is None else np.repeat(batch.context[:1], rows, 0)
    return probe_of(flow, call, x, context)


class Ran(NamedTuple):
    """What a layer was given and returned, a row for each point."""

    entered: Array
    value: Array

    @property
    def spreads(self) -> tuple[Array, Array]:
        """The deviations of each entry before and behind it."""
        return self.entered.std(0), self.value.std(0)

    @property
    def straight(self) -> bool:
        """Whether each entry is a line in the same entry of the input, that is not constant."""
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
    """What is wrong with how the output of a layer follows the size of its first batch, of those that hold
    ``tensors`` which it changes, given by name.

    A layer is judged where what enters it grows as the batch does, and where it is a line in each entry:
    then its output stays as it is, or grows likewise.
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
    """The first run of named layers in a first batch; nothing where that is not traced."""
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
    """The power of the size of what enters that the spread of an output grows with, in all entries; None where
    another thing enters than a larger batch, or another comes out.
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
    told = np.concatenate([one.ravel() for one in powers])
    return float(told.mean()) if np.ptp(told) <= NEAR else None
