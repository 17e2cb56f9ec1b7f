"""What a module does to batches, told by calls of copies and by no name: it normalizes by the batch,
by running averages, by instance, group or layer, or none of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.common.normalizer_calls import (
    SAME,
    WIDE,
    Played,
    grouped,
    lines,
    near,
    tensors,
    together,
)
from flowref.model import DEVIATION, ROOT_MEAN_SQUARE, SPREADS, Array
from flowref.model.structure.lines import by_channel

# How much the spread of an output may vary between batches that are normalized.
STEADY = 0.04
# How the classes of layers are called that divide each sample by its root mean square: of all its
# features, or of each channel's positions.
ROOTS, RESPONSES = r"RMS_?Norm|Root_?Mean_?Square", r"Filter_?Response|FRN(?![a-z])"
# Modules with more tensors, or with more submodules, are no single layer.
TENSORS, PARTS = 10, 6


class Behavior(NamedTuple):
    """What train mode normalizes by, in the words of `Normalizer`. ``fixed``: whether eval mode maps
    a sample to the same in any batch; ``exact``: whether train mode normalizes by no fewer values
    than it should; ``apart``: the axes of an event whose entries have each a line of their own; ``spread``:
    what it divides by.
    """

    statistics: str
    channel: tuple[int, ...]
    groups: int
    fixed: bool
    said: str
    exact: bool = True
    apart: tuple[int, ...] = ()
    spread: str = DEVIATION


def plausible(obj: Any) -> bool:
    """Whether an object may be one normalizing layer: a module that holds few numbers, all per
    channel.
    """
    import torch

    if not isinstance(obj, torch.nn.Module):
        return False
    held = tensors(obj)
    if len(held) > TENSORS or sum(1 for _ in obj.modules()) > PARTS:
        return False
    # A table of weights and biases, of which a label takes one row.
    tables = {id(one.weight) for one in obj.modules() if isinstance(one, torch.nn.Embedding)}
    held = {name: one for name, one in held.items() if id(one) not in tables}
    sizes = [tuple(size for size in tensor.shape if size > 1) for tensor in held.values()]
    # One length per channel; two for statistics that share a tensor.
    return all(len(size) <= 1 or (len(size) == 2 and 2 in size) for size in sizes) or all(
        size == sizes[0] for size in sizes
    )


def behavior(played: Played, named: bool) -> Behavior | None:
    """What an object normalizes by in train mode, or None where it is no normalizer; any error of a
    call goes through. ``named``: it says that it is a batch normalizer, and is taken for one though
    its output may be no line in its input, or have another spread than that of a normalizer.
    """
    seen = _behavior(played)
    if named or seen is None or seen.statistics != "batch":
        return seen
    return seen if forgets(played) and deviates(played, seen) else None


def further(played: Played, seen: Behavior, known: Collection[str]) -> str:
    """What else an object learns beside a weight and a bias, where moving that alone makes a channel no
    line in the input: as built it normalizes batches, and it is meant for more. Empty where it does
    not, or where it learns no more than two things; ``known``: what its weight and its bias are.
    """
    learned = {name: one for name, one in played.held().items() if one.trained}
    others = [name for name in learned if name not in known]
    if len(learned) < 3 or not others:
        return ""
    live, rng = played.copied(played.obj), np.random.default_rng(15)
    for name in others:
        values = learned[name].values
        live = played.having(live, name, None, values + 0.3 * rng.standard_normal(values.shape))
    x = played.draw(16, 12)
    plain, moved = played.train(x), replace(played, obj=live).train(x)
    off = [lines(x, y, seen.apart).off for y in (plain, moved)]
    return others[0] if off[0] < 100 * SAME < off[1] else ""


def forgets(played: Played, times: int = 1) -> bool:
    """Whether train mode maps a batch to the same, whatever came before, so many times."""
    x = played.draw(11, 9, 3.0)
    one, two = (
        played.life(*[(True, played.draw(seed, 9, spread) + level)] * times, (True, x))[-1]
        for seed, spread, level in ((12, 1.0, 0.0), (13, 30.0, -20.0))
    )
    return near(one, two)


def deviates(played: Played, seen: Behavior) -> bool:
    """Whether every channel of the output is a line in the input, whose spread is that of the batch
    whatever its distribution has for a shape, where it is normalized as it should be: other
    measures of spread are no slips.
    """
    x = played.draw(10, 24)
    values = np.sign(x - np.median(x)) * WIDE + 1e-3 * x
    spreads = []
    for points in (x, values, WIDE * np.abs(x / WIDE) ** 3):
        y = played.train(points)
        if lines(points, y, seen.apart).off > 100 * SAME:
            return False
        spreads.append(by_channel(y, seen.apart).std(1))
    steady = np.abs(np.stack(spreads) / np.maximum(spreads[0], 1e-300) - 1) < STEADY
    slip = not seen.exact and seen.apart == seen.channel
    return bool(steady.all()) or slip or ordered(played)


def other_spread(played: Played, seen: Behavior) -> str:
    """The measure of spread that an object divides by, where it is another than the standard deviation
    and no slip gives: to one factor the same in batches of three distributions.
    """
    x = played.draw(10, 24)
    values = np.sign(x - np.median(x)) * WIDE + 1e-3 * x
    told: dict[str, list[Array]] = {name: [] for name in SPREADS}
    for points in (x, values, WIDE * np.abs(x / WIDE) ** 3):
        slope = lines(points, played.train(points), seen.apart).slope
        rows = by_channel(points, seen.apart)
        for name, spread in SPREADS.items():
            told[name].append(slope * spread(rows))
    off = {
        name: float(np.abs(np.stack(each) / each[0] - 1).max())
        for name, each in told.items()
        if np.abs(each[0]).min() > 0
    }
    nearest = min(off, key=lambda name: off[name], default=DEVIATION)
    steady = off.get(nearest, 1.0) < 10 * SAME < STEADY < off.get(DEVIATION, 0.0)
    return nearest if steady else ""


def ordered(played: Played) -> bool:
    """Whether the order of the samples or of the positions matters, which it does in no measure of
    spread.
    """
    x = played.draw(14, 9)
    y, axes = played.train(x), together(played) or ()
    return any(not near(played.train(np.flip(x, axis)), np.flip(y, axis)) for axis in axes)


def _behavior(played: Played) -> Behavior | None:
    axes, shape = together(played), played.shape
    if axes is None:
        return averages(played) or centered(played) or by_mean_squares(played)
    if 0 not in axes:
        whole = len(shape) > 1 and len(axes) == len(shape)
        return _of_samples(
            played, tuple(axis - 1 for axis in axes), grouped(played) if whole else 1
        )
    apart = [axis for axis, size in enumerate(shape) if axis + 1 not in axes and size > 1] or [0]
    channel = _channel(played, tuple(apart))
    if channel is None:
        return None
    said = "train mode standardizes each batch"
    return Behavior("batch", channel, 1, fixed(played), said, channel == tuple(apart), tuple(apart))


def _channel(played: Played, apart: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of an event that hold its channels, where those are normalized apart: those, unless
    all it holds is for one of them.
    """
    shape = played.shape
    held = {one.length for one in played.held().values() if one.length > 1}
    if not held:
        return apart if len(apart) == 1 else None
    if int(np.prod([shape[axis] for axis in apart])) in held:
        return apart
    return next(((axis,) for axis in apart if shape[axis] in held), None)


def _of_samples(played: Played, axes: tuple[int, ...], groups: int) -> Behavior:
    shape = played.shape
    apart = [axis for axis, size in enumerate(shape) if size > 1 and axis not in axes]
    kind = "group" if groups > 1 else "instance" if len(apart) == 1 else "layer"
    said = f"train mode standardizes each sample over its axes {axes}"
    return Behavior(kind, axes, groups, fixed(played), said)


def by_mean_squares(played: Played) -> Behavior | None:
    """Division of each sample by its root mean square, its mean left where it is: every entry of the
    output is a line in what that gives, but for a threshold. Of what is called so it is not asked
    what it divides by.
    """
    axes, named = together(played, uncentred=True), by_name(played)
    over = named or tuple(axis - 1 for axis in axes or () if axis)
    axes = axes if axes and 0 not in axes else tuple(axis + 1 for axis in over)
    if not over:
        return None
    x = played.draw(15, 24)
    y, square = played.train(x), x**2
    whole = _divides(x, y, square.mean(axes, keepdims=True))
    if named and not whole and _of_parts(x, y, over):
        return None
    if named or whole:
        over = over if named else tuple(axis - 1 for axis in axes)
        seen = _of_samples(played, over, 1)
        said = f"train mode divides each sample by its {ROOT_MEAN_SQUARE} over its axes {over}"
        return seen._replace(said=said, spread=ROOT_MEAN_SQUARE)
    return None


def by_name(played: Played) -> tuple[int, ...]:
    """The axes over which the name of a layer says that it divides each sample by its root mean square;
    none where it does not.
    """
    parts = [re.search(f"{ROOTS}|{RESPONSES}", type(one).__name__) for one in modules(played.obj)]
    sizes = [held.values.shape for held in played.held().values() if held.size > 1]
    if not parts or not all(parts) or not sizes:
        return ()
    shape, count = played.shape, int(np.prod(sizes[0]))
    if re.search(RESPONSES, type(played.obj).__name__):
        channel = [axis for axis, size in enumerate(shape) if size == count]
        return tuple(axis for axis in range(len(shape)) if axis not in channel[:1])
    for start in range(len(shape) - 1, -1, -1):
        if int(np.prod(shape[start:])) == count:
            return tuple(range(start, len(shape)))
    return ()


def modules(obj: Any) -> list[Any]:
    """An object and its submodules."""
    return list(obj.modules()) if hasattr(obj, "modules") else [obj]


def _of_parts(x: Array, y: Array, over: tuple[int, ...]) -> bool:
    """Whether the last axis is divided by the root mean square of its first entries alone, or group by
    group, as some do on purpose.
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
    """Whether outputs are lines, entry by entry, in a batch divided by the roots of something, where
    they are at no threshold.
    """
    hat = np.broadcast_to(x / np.sqrt(inside), x.shape)
    free = (y != y.min(0)) & (y != y.max(0))
    count = np.maximum(free.sum(0), 1)
    if not 2 * free.mean() > 1:
        return False
    middle, level = ((each * free).sum(0) / count for each in (hat, y))
    moved = (hat - middle) * free
    slope = (moved * (y - level)).sum(0) / np.maximum((moved**2).sum(0), 1e-300)
    return near(np.where(free, y, 0.0), np.where(free, level + slope * (hat - middle), 0.0))


def fixed(played: Played) -> bool:
    """Whether eval mode maps a sample to the same whatever its batch."""
    x = played.draw(3, 6, 1.0)
    whole, part = (played.life((False, points))[0] for points in (x, x[:3]))
    return near(whole[:3], part)


def averages(played: Played) -> Behavior | None:
    """Normalization by running averages, which the batch has entered: train mode maps a batch by
    the line by which eval mode does afterwards, and not before.
    """
    x = played.draw(4, 9, 3.0) + 5
    other = played.draw(5, 9, 1.0)
    y, after, again = played.life((True, x), (False, x), (False, x))
    before, _, two = played.life((False, x), (True, other), (True, x))
    _, _, later = played.life((True, x), (True, other), (False, x))
    if not (near(y, after) and near(after, again)) or near(before, after) or near(y, two):
        return None
    if near(later, after):
        return None  # set by the first batch alone
    for axis in range(len(played.shape)):
        if _moves(played, axis, x, y, two):
            said = "train mode normalizes by averages that the batch has entered"
            return Behavior("running", (axis,), 1, True, said)
    return None


def _moves(played: Played, axis: int, x: Array, y: Array, two: Array) -> bool:
    """Whether outputs of a batch are lines per entry of an axis whose slopes depend on what came
    before.
    """
    held = {one.length for one in played.held().values()}
    first, second = lines(x, y, (axis,)), lines(x, two, (axis,))
    if played.shape[axis] not in held or max(first.off, second.off) > 100 * SAME:
        return False
    # The larger the batches so far, the smaller the slopes.
    far = played.life((True, WIDE * x), (True, x))[1]
    return bool((np.abs(lines(x, far, (axis,)).slope) < 0.5 * np.abs(first.slope)).all())


def centered(played: Played) -> Behavior | None:
    """A module that is meant to normalize batches and does so with a slip: it holds statistics, and
    train mode takes away the mean of a batch and most of its scale.
    """
    kept = [one.size for one in played.held().values() if not one.trained and one.size > 1]
    for axis, size in enumerate(played.shape):
        if not {size, 2 * size} & set(kept):
            continue
        if _takes_away(played, (axis,)):
            said = "train mode takes away mean and scale of a batch, and it holds statistics"
            return Behavior("batch", (axis,), 1, fixed(played), said, False, (axis,))
    return None


def _takes_away(played: Played, channel: Sequence[int]) -> bool:
    x = played.draw(6, 9)
    means, spreads = [], []
    for level, factor in ((0.0, 1.0), (0.3, 4.0), (-0.4, 0.5)):
        rows = by_channel(played.train(factor * (x + level * WIDE)), channel)
        means.append(rows.mean(1))
        spreads.append(rows.std(1))
    size = np.abs(spreads[0]).max()
    steady_mean = max(float(np.abs(mean - means[0]).max()) for mean in means) < 0.02 * size
    ratio = np.stack(spreads) / np.maximum(spreads[0], 1e-300)
    # A slope of 1 / v, or a root of second moments, is meant for a deviation; a plain difference
    # from the mean is not.
    return steady_mean and bool(
        (ratio[1] < 2.5).all() and (ratio[1] > 0.2).all() and (ratio[2] > 0.6).all()
    )
