"""What an object normalizes by in train mode, by its behaviour and whatever its name: a table, read from
the top.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from flowref.adapters.common.normalizers.probe import (
    EVAL,
    SAME,
    TRAIN,
    WIDE,
    Probe,
    channel_lines,
    close_in_float32,
    grouped,
    straight,
    together,
)
from flowref.model import DEVIATION, ROOT_MEAN_SQUARE, RUNNING, SPREADS, Array
from flowref.model.structure.line_fits import by_channel, fit_lines

# Allowed variation of the output's spread between normalized batches.
STEADY = 0.04
# Class names of layers that divide samples by a root mean square: over features, or over positions
# of each channel.
ROOTS, RESPONSES = r"RMS_?Norm|Root_?Mean_?Square", r"Filter_?Response|FRN(?![a-z])"

Axes = tuple[int, ...]


class Behavior(NamedTuple):
    """What train mode normalizes by, in terms of `Normalizer`. ``fixed``: eval mode maps a sample equally
    in any batch; ``exact``: train mode normalizes over no fewer values than it should; ``apart``: axes of
    an event with a line per entry; ``spread``: the divisor.
    """

    statistics: str
    channel: Axes
    groups: int
    fixed: bool
    said: str
    exact: bool = True
    apart: Axes = ()
    spread: str = DEVIATION


class NormalizerKind(NamedTuple):
    """A kind of normalizer: its name, its remark, its test given the jointly normalized axes of a batch,
    and the body of an example ``forward(self, x)`` with weight, bias, mean and var in ``self``.
    """

    name: str
    said: str
    shows: Callable[[Probe, Axes | None], Behavior | None]
    example: str


def behavior(probe: Probe, named: bool) -> Behavior | None:
    """What an object normalizes by in train mode; None if it is no normalizer. Exceptions of calls pass.
    ``named``: it is declared or named a batch normalizer, and is accepted even if its output is not affine
    in its input, or has another spread.
    """
    if not probe.mixes and not by_name(probe):
        return None
    axes = together(probe)
    seen = next(filter(None, (kind.shows(probe, axes) for kind in KINDS)), None)
    if named or seen is None or seen.statistics != "batch":
        return seen
    return seen if forgets(probe) and deviates(probe, seen) else None


# Rows of the table.


def of_batches(probe: Probe, axes: Axes | None) -> Behavior | None:
    """Normalization over the batch."""
    if axes is None or 0 not in axes:
        return None
    shape = probe.shape
    apart = [axis for axis, size in enumerate(shape) if axis + 1 not in axes and size > 1] or [0]
    channel = _channel(probe, tuple(apart))
    if channel is None:
        return None
    exact = channel == tuple(apart)
    return Behavior("batch", channel, 1, eval_is_fixed(probe), BATCH, exact, tuple(apart))


def _channel(probe: Probe, apart: Axes) -> Axes | None:
    """The channel axes of an event, if channels are normalized separately: ``apart``, unless all parameters
    belong to one of these axes.
    """
    shape = probe.shape
    held = {one.length for one in probe.held().values() if one.length > 1}
    if not held:
        return apart if len(apart) == 1 else None
    if int(np.prod([shape[axis] for axis in apart])) in held:
        return apart
    return next(((axis,) for axis in apart if shape[axis] in held), None)


def of_samples(probe: Probe, axes: Axes | None, said: str = "") -> Behavior | None:
    """Normalization within each sample."""
    if axes is None or 0 in axes:
        return None
    shape, over = probe.shape, tuple(axis - 1 for axis in axes)
    groups = grouped(probe) if not said and 1 < len(shape) == len(over) else 1
    apart = [axis for axis, size in enumerate(shape) if size > 1 and axis not in over]
    kind = "group" if groups > 1 else "instance" if len(apart) == 1 else "layer"
    return Behavior(kind, over, groups, eval_is_fixed(probe), (said or SAMPLES).format(over))


def of_averages(probe: Probe, axes: Axes | None) -> Behavior | None:
    """Normalization by running averages after their update: train mode maps a batch as eval mode does
    afterwards, and not before.
    """
    if axes is not None:
        return None
    x, other = probe.draw(4, 9, 3.0) + 5, probe.draw(5, 9, 1.0)
    y, after, again = probe.life((TRAIN, x), (EVAL, x), (EVAL, x))
    if not (close_in_float32(y, after) and close_in_float32(after, again)) or close_in_float32(
        probe.life((EVAL, x))[0], after
    ):
        return None
    two = probe.life((EVAL, x), (TRAIN, other), (TRAIN, x))[2]
    later = probe.life((TRAIN, x), (TRAIN, other), (EVAL, x))[2]
    if close_in_float32(y, two) or close_in_float32(
        later, after
    ):  # or initialized by its first batch
        return None
    for axis in range(len(probe.shape)):
        if _moves(probe, axis, x, y, two):
            return Behavior(RUNNING, (axis,), 1, True, AVERAGES)
    return None


def _moves(probe: Probe, axis: int, x: Array, y: Array, two: Array) -> bool:
    """Whether outputs ``y`` of a batch ``x``, ``(rows, *event)``, are lines per entry of an axis whose
    slopes depend on earlier batches.
    """
    held = {one.length for one in probe.held().values()}
    if probe.shape[axis] not in held or not all(straight(x, each, (axis,)) for each in (y, two)):
        return False
    # The slopes decrease with the spread of earlier batches.
    far = probe.life((TRAIN, WIDE * x), (TRAIN, x))[1]
    late, first = (np.abs(channel_lines(x, each, (axis,)).slope) for each in (far, y))
    return bool((late < 0.5 * first).all())


def faulty_batch_norm(probe: Probe, axes: Axes | None) -> Behavior | None:
    """A batch norm with a bug: it holds statistics, and train mode removes the mean of a batch and most of
    its scale.
    """
    kept = [one.size for one in probe.held().values() if not one.trained and one.size > 1]
    for axis, size in enumerate(probe.shape):
        if axes is None and {size, 2 * size} & set(kept) and _takes_away(probe, (axis,)):
            return Behavior("batch", (axis,), 1, eval_is_fixed(probe), FAULTY, False, (axis,))
    return None


def _takes_away(probe: Probe, channel: Sequence[int]) -> bool:
    x = probe.draw(6, 9)
    means, spreads = [], []
    for level, factor in ((0.0, 1.0), (0.3, 4.0), (-0.4, 0.5)):
        rows = by_channel(probe.train(factor * (x + level * WIDE)), channel)
        means.append(rows.mean(1))
        spreads.append(rows.std(1))
    size = np.abs(spreads[0]).max()
    steady_mean = max(float(np.abs(mean - means[0]).max()) for mean in means) < 0.02 * size
    ratio = np.stack(spreads) / np.maximum(spreads[0], 1e-300)
    # A slope of 1 / v, or the root of a second moment, is a mistaken standard deviation; a mere
    # centering is not.
    return steady_mean and bool(
        (ratio[1] < 2.5).all() and (ratio[1] > 0.2).all() and (ratio[2] > 0.6).all()
    )


def by_mean_squares(probe: Probe, axes: Axes | None) -> Behavior | None:
    """Division of each sample by its root mean square, without centering: each output entry is affine in
    the quotient, up to a threshold. Layers with such a name are accepted whatever their divisor.
    """
    if axes is not None:
        return None
    axes, named = together(probe, uncentred=True), by_name(probe)
    over = named or tuple(axis - 1 for axis in axes or () if axis)
    axes = axes if axes and 0 not in axes else tuple(axis + 1 for axis in over)
    if not over:
        return None
    x = probe.draw(15, 24)
    y = probe.train(x)
    whole = _divides(x, y, (x**2).mean(axes, keepdims=True))
    if not whole and (not named or _of_parts(x, y, over)):
        return None
    seen = of_samples(probe, tuple(axis + 1 for axis in named) or axes, ROOTED)
    return seen and seen._replace(spread=ROOT_MEAN_SQUARE)


def by_name(probe: Probe) -> Axes:
    """The axes over which the name of a layer implies division by the root mean square; empty if it does
    not.
    """
    modules = probe.obj.modules() if hasattr(probe.obj, "modules") else [probe.obj]
    parts = [re.search(f"{ROOTS}|{RESPONSES}", type(one).__name__) for one in modules]
    sizes = [held.values.shape for held in probe.held().values() if held.size > 1]
    if not parts or not all(parts) or not sizes:
        return ()
    shape, count = probe.shape, int(np.prod(sizes[0]))
    if re.search(RESPONSES, type(probe.obj).__name__):
        channel = [axis for axis, size in enumerate(shape) if size == count]
        return tuple(axis for axis in range(len(shape)) if axis not in channel[:1])
    starts = reversed(range(len(shape)))
    start = next((at for at in starts if int(np.prod(shape[at:])) == count), len(shape))
    return tuple(range(start, len(shape)))


def _of_parts(x: Array, y: Array, over: Axes) -> bool:
    """Whether the last axis is divided by the root mean square of its first entries, or of groups, as some
    do on purpose.
    """
    if over != (x.ndim - 2,):
        return False
    square, size = x**2, x.shape[-1]
    first = [square[..., :end].mean(-1, keepdims=True) for end in range(1, size)]
    groups = [
        square.reshape(*x.shape[:-1], count, -1).mean(-1).repeat(size // count, -1)
        for count in range(2, size)
        if size % count == 0
    ]
    return any(_divides(x, y, each) for each in (*first, *groups))


def _divides(x: Array, y: Array, inside: Array) -> bool:
    """Whether outputs ``y (rows, *event)`` are affine, entry by entry, in ``x / sqrt(inside)``, apart from
    thresholds.
    """
    hat = np.broadcast_to(x / np.sqrt(inside), x.shape)
    free = (y != y.min(0)) & (y != y.max(0))
    line = fit_lines(*(each.reshape(len(x), -1).T for each in (hat, y, free)))
    off = np.where(free.reshape(len(x), -1).any(0), line.off, 0.0)
    size = float(np.abs(np.where(free, y, 0.0)).max())
    return bool(2 * free.mean() > 1 and np.isfinite(size) and off.max() <= SAME * size)


BATCH = "train mode standardizes each batch"
SAMPLES = "train mode standardizes each sample over its axes {}"
AVERAGES = "train mode normalizes by averages that the batch has entered"
FAULTY = "train mode removes mean and scale of a batch, and it holds statistics"
ROOTED = f"train mode divides each sample by its {ROOT_MEAN_SQUARE} over its axes {{}}"
KINDS = (
    NormalizerKind(
        "a batch norm",
        BATCH,
        of_batches,
        """
mean, var = self.mean, self.var
if self.training:
    mean, var = x.mean(0), x.var(0, unbiased=False)
    self.mean.lerp_(mean.detach(), 0.1)
    self.var.lerp_(x.var(0).detach(), 0.1)
return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias
""",
    ),
    NormalizerKind(
        "an instance, group or layer norm",
        SAMPLES,
        of_samples,
        """
mean, var = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias
""",
    ),
    NormalizerKind(
        "a batch norm by running averages",
        AVERAGES,
        of_averages,
        """
if self.training:
    self.mean.lerp_(x.mean(0).detach(), 0.1)
    self.var.lerp_(x.var(0).detach(), 0.1)
return (x - self.mean) / (self.var + 1e-5).sqrt() * self.weight + self.bias
""",
    ),
    NormalizerKind(
        "a batch norm with a bug",
        FAULTY,
        faulty_batch_norm,
        """
mean, var = self.mean, self.var
if self.training:
    mean, var = x.mean(0), x.var(0, unbiased=False)
    self.mean.lerp_(mean.detach(), 0.1)
    self.var.lerp_(x.var(0).detach(), 0.1)
return (x - mean) / (var + 1e-5) * self.weight + self.bias
""",
    ),
    NormalizerKind(
        "an RMS norm",
        ROOTED,
        by_mean_squares,
        """
return x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * self.weight
""",
    ),
)


# Further facts of it.


def eval_is_fixed(probe: Probe) -> bool:
    x = probe.draw(3, 6, 1.0)
    whole, part = (probe.life((EVAL, points))[0] for points in (x, x[:3]))
    return close_in_float32(whole[:3], part)


def forgets(probe: Probe, times: int = 1) -> bool:
    """Whether train mode maps a batch equally after ``times`` other batches."""
    x = probe.draw(11, 9, 3.0)
    one, two = (
        probe.life(*[(TRAIN, probe.draw(seed, 9, spread) + level)] * times, (TRAIN, x))[-1]
        for seed, spread, level in ((12, 1.0, 0.0), (13, 30.0, -20.0))
    )
    return close_in_float32(one, two)


def unsteady(probe: Probe, seen: Behavior) -> dict[str, float] | None:
    """For each measure of spread, the deviation from a constant ratio of output scale over batches of three
    distributions; None if a channel is not affine.
    """
    x = probe.draw(10, 24)
    ratios: dict[str, list[Array]] = {name: [] for name in SPREADS}
    for points in (x, np.sign(x - np.median(x)) * WIDE + 1e-3 * x, WIDE * np.abs(x / WIDE) ** 3):
        y, rows = probe.train(points), by_channel(points, seen.apart)
        if not straight(points, y, seen.apart):
            return None
        for name, spread in SPREADS.items():
            ratios[name].append(channel_lines(points, y, seen.apart).slope * spread(rows))
    return {
        name: float(np.abs(np.stack(each) / each[0] - 1).max())
        for name, each in ratios.items()
        if np.abs(each[0]).min() > 0
    }


def deviates(probe: Probe, seen: Behavior) -> bool:
    """Whether each channel is affine with a spread that varies with the distribution, so that the divisor
    is not the standard deviation; other proper measures of spread are excluded.
    """
    off = unsteady(probe, seen)
    if off is None:
        return False
    inexact = not seen.exact and seen.apart == seen.channel
    return off.get(DEVIATION, 1.0) < STEADY or inexact or ordered(probe)


def other_spread(probe: Probe, seen: Behavior) -> str:
    """The measure of spread that an object divides by, if it is another than the standard deviation and no
    bug explains it.
    """
    off = unsteady(probe, seen) or {}
    nearest = min(off, key=lambda name: off[name], default=DEVIATION)
    steady = off.get(nearest, 1.0) < 10 * SAME < STEADY < off.get(DEVIATION, 0.0)
    return nearest if steady else ""


def ordered(probe: Probe) -> bool:
    """Whether the order of samples or positions matters, which no measure of spread depends on."""
    x = probe.draw(14, 9)
    y, axes = probe.train(x), together(probe) or ()
    return any(
        not close_in_float32(probe.train(np.flip(x, axis)), np.flip(y, axis)) for axis in axes
    )
