"""Initialization by the first batch in train mode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.common.outcomes import changed, flags
from flowref.laws.common.probes import Probe
from flowref.laws.common.requirements import in_double, repeatable
from flowref.laws.conduct.first_batch_inside import (
    FACTORS,
    NEAR,
    ROUNDED,
    of_layers,
    probe_with_one_context,
)
from flowref.laws.conduct.train_mode import has_modes
from flowref.laws.conduct.training_batches import (
    SHARE,
    LivingBijection,
    played,
)
from flowref.model import EXACT, GIVEN, Array, Batch, Residual, Unsupported, law
from flowref.model.steps import State, Train
from flowref.model.structure.line_fits import by_entry, fit_lines

# The shift of a first batch.
HIGHER = 40.0


@law(
    "mode/first-batch",
    key="mode/first-batch-scale",
    version=3,
    applies=has_modes & repeatable & in_double,
    tolerance=EXACT,
    history="fresh",
    effort=1,
    size=3,
    scales=GIVEN,
    source="Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), section 3.1: the first batch comes out with mean 0 and variance 1",
)
def first_batch_scale(flow: LivingBijection, batch: Batch) -> Residual:
    """If the first batch in train mode initializes parameters or buffers, the output is unchanged,
    or scales linearly, under scaling of that batch; unchanged, or shifted equally, under a shift;
    and permuted under permutations of rows, or of positions if each channel has one affine map.
    The same holds for inner layers, relative to their inputs and outputs, with one context for all
    rows.
    """
    if flow.domain.kind != "real":
        raise Unsupported("its domain is not all reals", blocked=False)
    asked = probe_with_one_context(flow, batch, flow.normalizing)
    again = asked.at(3.0 * asked.points[::-1] + 1.0)
    run = asked.step()
    steps = [State(), Train(), run, State(), again.step(), State()]
    state, _, out, settled, _, later = played(flow, steps, fresh=True)
    if not changed(state, settled) or changed(settled, later):
        raise Unsupported("its first batch does not initialize it", blocked=False)
    x, y = asked.points, np.asarray(out.value, dtype=np.float64)
    notes = list(
        filter(
            None,
            (
                of_size(flow, asked, y) or of_layers(flow, asked, changed(state, settled)),
                of_order(flow, asked, y),
                of_positions(flow, asked, x, y),
            ),
        )
    )
    return flags(bool(notes), len(batch.x), "; ".join(notes))


def first_batch_output(flow: LivingBijection, asked: Probe, points: Array, draws: int = 0) -> Array:
    """The output of a new object for its first batch, ``(n, *event)``."""
    run = asked.at(np.ascontiguousarray(points)).step(draws=draws)
    return np.asarray(played(flow, [Train(), run], fresh=True).of(run).value, dtype=np.float64)


def of_size(flow: LivingBijection, asked: Probe, y: Array) -> str:
    """The error message for the response of the first output to scale and shift of the batch;
    empty if it is right.
    """
    outputs = [
        y,
        *(first_batch_output(flow, asked, factor * asked.points) for factor in FACTORS[1:]),
    ]
    power = power_of(outputs)
    if power is None:
        return ""
    if min(abs(power), abs(power - 1)) > NEAR:
        return f"its first output grows as the power {power:.2g} of its first batch"
    moved = first_batch_output(flow, asked, asked.points + HIGHER)
    line = channel_lines(asked.points, y)
    if line is None or moved.shape != y.shape or not np.isfinite(moved).all():
        return ""
    rise = moved - y
    expected = np.broadcast_to(HIGHER * line.slope, rise.shape)
    share = float((rise * expected).sum() / (expected**2).sum())
    if np.abs(rise - share * expected).max() > SHARE * (np.abs(rise) + np.abs(expected)).max():
        return ""
    if min(abs(share), abs(share - 1)) <= NEAR:
        return ""
    return f"if its first batch is shifted, its first output shifts by {share:.2g} of that"


def of_order(flow: LivingBijection, asked: Probe, y: Array) -> str:
    """The error message for the response of the first output to the order of the rows; empty if it
    is right.
    """
    if not equal_but_for_summation(first_batch_output(flow, asked, asked.points, draws=1), y):
        return ""  # it is random
    order = np.random.default_rng(1).permutation(len(asked.points))
    if equal_but_for_summation(first_batch_output(flow, asked, asked.points[order]), y[order]):
        return ""
    return "the order of the rows of its first batch matters"


def of_positions(flow: LivingBijection, asked: Probe, x: Array, y: Array) -> str:
    """The error message for the response of the first output to the order of the positions; empty
    if it is right.
    """
    line = channel_lines(x, y)
    if line is None or line.channel is None or x[0].size <= x.shape[line.channel]:
        return ""
    order = np.random.default_rng(2).permutation(x[0].size // x.shape[line.channel])
    shuffled, expected = (shuffle(values, order, line.channel) for values in (x, y))
    if equal_but_for_summation(first_batch_output(flow, asked, shuffled), expected):
        return ""
    return "the order of the positions in its first batch matters"


class ChannelLines(NamedTuple):
    """The slope of each entry of an output in the same entry of its input, ``(*event)``, and the
    only axis of a batch along which slopes and levels differ; None if there is no such axis.
    """

    slope: Array
    channel: int | None


def channel_lines(x: Array, y: Array) -> ChannelLines | None:
    """The affine maps of all entries; None if the output is not entrywise affine."""
    if x.shape != y.shape or not np.isfinite(y).all():
        return None
    *both, off = fit_lines(by_entry(x), by_entry(y))
    if off.max() > ROUNDED * np.abs(y).max():
        return None
    slope, level = (one.reshape(x.shape[1:]) for one in both)
    for axis in range(slope.ndim):
        others = tuple(at for at in range(slope.ndim) if at != axis)
        parts = [
            np.ptp(one, axis=others).max() / max(float(np.abs(one).max()), 1e-300)
            for one in (slope, level)
        ]
        if others and max(parts) <= ROUNDED:
            return ChannelLines(slope, axis + 1)
    return ChannelLines(slope, None)


def shuffle(values: Array, order: Array, channel: int) -> Array:
    """The positions of each row in another order, with channels fixed."""
    front = np.moveaxis(values, channel, 1)
    flat = front.reshape(*front.shape[:2], -1)[..., order]
    return np.asarray(np.moveaxis(flat.reshape(front.shape), 1, channel))


def equal_but_for_summation(one: Array, other: Array) -> bool:
    """Whether two outputs are equal up to the order of summation in a mean."""
    same = one.shape == other.shape
    return same and bool(np.abs(one - other).max() <= ROUNDED * (1 + np.abs(other).max()))


def power_of(outputs: list[Array]) -> float | None:
    """The exponent with which outputs grow with the scale of the input; None if they are not
    proportional.
    """
    sizes = [float(np.abs(out).max()) for out in outputs]
    if not all(np.isfinite(sizes)) or min(sizes) <= 0:
        return None
    power = float(np.log(sizes[1] / sizes[0]) / np.log(FACTORS[1]))
    for factor, out, size in zip(FACTORS, outputs, sizes, strict=True):
        expected = outputs[0] * factor**power
        if out.shape != expected.shape or np.abs(out - expected).max() > SHARE * size:
            return None
    return power
