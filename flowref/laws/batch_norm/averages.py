r"""Running statistics: which known convention explains an update exactly.

$r \leftarrow (1 - f)\, r + f\, s$ with the statistic s of the batch. The fraction f is the
momentum (torch), one minus it (if momentum is the factor of the old value), 1/t for the t-th batch
(a plain average), or 1/t until that is below the momentum (a warm-up). The variance is the
unbiased or the biased one of the batch, or with the means gives that of all values so far:
weighted by shares, or as sums of squares divided by their count minus one. All of these are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import channel_moments, largest_per_channel, per_channel
from flowref.laws.batch_norm.channels_first import channels_first
from flowref.laws.batch_norm.formula import Parameters, Running
from flowref.laws.batch_norm.normalizer import random_batch
from flowref.model import Array, Batch, Figure, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.figure import COURSE, figure
from flowref.model.steps import Normalize, Roles, Step, Train
from flowref.model.structure.line_fits import update_fraction

# Batch sizes of a history, and of one that is plotted.
SIZES, SHOWN = (5, 11, 3, 8), (5, 11, 3, 8, 6, 9, 4, 12)
# Relative error up to which a convention explains a history.
EXPLAINS = 1e-6
NEW, KEEP, AVERAGE, WARMING = "new", "keep", "average", "warming"
UNKNOWN, POOLED, COUNTED = "unknown", "pooled", "counted"


class History(NamedTuple):
    """Train-mode batches, and the parameters before the first and after each of them."""

    batches: list[Array]
    parameters: list[Parameters]

    def updates(self) -> Iterator[tuple[Array, Running, Running]]:
        """Each batch with the running statistics before and after it."""
        states = pairwise(one.running for one in self.parameters)
        for x, (before, after) in zip(self.batches, states, strict=True):
            yield x, before, after


class Convention(NamedTuple):
    """A convention of running statistics: the meaning of the momentum, and n - ``freedom`` as
    divisor of the variance.
    """

    momentum: str
    freedom: int


def _training_history(flow: BatchNormal, batches: list[Array]) -> History:
    steps: list[Step[Any]] = [step for x in batches for step in (Normalize(x), Roles())]
    life = flow.play([Roles(), Train(), *steps])
    return History(batches, [Parameters.of(flow, roles) for roles in (life[0], *life[3::2])])


def random_history(
    flow: BatchNormal, rng: np.random.Generator, sizes: tuple[int, ...] = SIZES
) -> History:
    """The history of a few random batches of different sizes."""
    return _training_history(flow, [random_batch(flow, rng, rows) for rows in sizes])


def fractions(momentum: str, history: History) -> list[float]:
    """The fraction f of each batch by a convention; nan if the convention does not apply."""
    first, count = history.parameters[0], len(history.batches)
    if momentum == AVERAGE:
        return [
            np.nan if before.num_batches is None else 1 / (before.num_batches + 1)
            for before in history.parameters[:count]
        ]
    if momentum in (UNKNOWN, POOLED, COUNTED):
        return measured_fractions(history)
    if first.momentum is None:
        return [np.nan] * count
    if momentum in (NEW, KEEP):
        return [first.momentum if momentum == NEW else 1 - first.momentum] * count
    # The first batch gives the number of batches so far; the others follow.
    start = measured_fractions(history)[0]
    if not 0 < start <= 1:
        return [np.nan] * count
    least, earlier = min(first.momentum, 1 - first.momentum), round(1 / start)
    return [max(least, 1 / (earlier + index)) for index in range(count)]


def measured_fractions(history: History) -> list[float]:
    """The fraction with which each batch entered the running mean."""
    return [
        update_fraction(channel_moments(x)[0], before.mean, after.mean)
        for x, before, after in history.updates()
    ]


def constant_share(history: History) -> float | None:
    """The common fraction of all batches, a momentum with or without an attribute; None if
    fractions differ.
    """
    first, *others = measured_fractions(history)
    if not 0 < first <= 1 or any(abs(other - first) > EXPLAINS * first for other in others):
        return None
    return first


def convention_gaps(history: History, convention: Convention) -> Array:
    """The relative deviation of a history from a convention, ``(batches, 2, channels)``: of mean
    and variance.
    """
    shares = fractions(convention.momentum, history)
    rows = [
        after.off(
            updated(before, x, convention, share),
            np.abs(before.mean) + largest_per_channel(x),
            np.abs(before.var) + channel_moments(x, convention.freedom)[1],
        )
        for share, (x, before, after) in zip(shares, history.updates(), strict=True)
    ]
    return np.where(np.isnan(rows), np.inf, rows)


def updated(old: Running, x: Array, convention: Convention, share: float) -> Running:
    """Running statistics after a batch, by a convention."""
    mean, var = channel_moments(x, convention.freedom)
    if convention.momentum == POOLED:
        # The variance of all values so far includes that between the batches.
        var = var + (1 - share) * (mean - old.mean) ** 2
    new = old.toward(mean, var, share)
    if convention.momentum == COUNTED:
        return new._replace(var=of_all(old, x, share, convention.freedom))
    return new


def of_all(old: Running, x: Array, share: float, freedom: int) -> Array:
    """The variance of all values so far, ``(channels,)``, as sums of squares divided by their
    number minus ``freedom``; the share of a batch in the mean gives their number.
    """
    mean, var = channel_moments(x)
    rows = per_channel(x).shape[1]
    with np.errstate(all="ignore"):
        count = np.float64(rows) / share
        before = max(count - rows, 0.0)
        squares = max(before - freedom, 0.0) * old.var + rows * var
        between = before * share * (mean - old.mean) ** 2
        return np.asarray((squares + between) / (count - freedom))


def explained(
    history: History, admitted: Callable[[Convention], bool] = lambda convention: True
) -> tuple[Convention, Array]:
    """The admitted convention that explains a history best, torch's first, and its deviation,
    ``(batches, 2, channels)``.
    """
    has_momentum = history.parameters[0].momentum is not None
    kinds = [NEW, KEEP, WARMING] if has_momentum else [AVERAGE, UNKNOWN, POOLED]
    conventions = [Convention(kind, freedom) for kind in kinds for freedom in (1, 0)]
    # With divisor n the weights by shares are exact.
    conventions += [] if has_momentum else [Convention(COUNTED, 1)]
    distances = [(one, convention_gaps(history, one)) for one in conventions if admitted(one)]
    return min(distances, key=lambda pair: float(pair[1].max()))


def course(flow: Any, batch: Batch) -> Figure:
    """A figure of the running mean, or variance, of the channel that deviates most from the
    nearest known convention: recorded before the first batch and after each, and as expected from
    the same start.
    """
    normalizer = channels_first(flow)
    history = random_history(normalizer, np.random.default_rng(batch.seed), SHOWN)
    convention = nearest(history)
    shares = np.nan_to_num(fractions(convention.momentum, history), nan=0.0)
    expected = [history.parameters[0].running]
    for x, share in zip(history.batches, shares, strict=True):
        expected.append(updated(expected[-1], x, convention, share))
    recorded = [state.running for state in history.parameters]
    courses = [
        (f"running {name}, channel {channel}", values[:, :, channel])
        for at, name in enumerate(("mean", "variance"))
        for values in [np.stack([[one[at] for one in recorded], [one[at] for one in expected]], 1)]
        for channel in range(values.shape[2])
    ]
    if not courses:
        raise Unsupported("it keeps no running statistics")
    title, values = max(courses, key=lambda one: _relative_gap(one[1]))
    if _relative_gap(values) < EXPLAINS:
        raise Unsupported("what is wrong is not seen in the course of the statistics")
    return figure(COURSE, title, recorded=values[:, 0], expected=values[:, 1])


def nearest(history: History) -> Convention:
    """The convention that explains most of a history; one fitted to each batch only if it explains
    all, or there is no other.
    """
    best, gap = explained(history)
    if gap.max() < EXPLAINS:
        return best
    kinds = (NEW, KEEP) if history.parameters[0].momentum is not None else (AVERAGE, UNKNOWN)
    found = [Convention(kind, freedom) for kind in kinds for freedom in (1, 0)]
    scores = [float(np.minimum(convention_gaps(history, one), 1.0).mean()) for one in found]
    best_at = int(np.argmin(scores))
    # Torch's, unless another one explains far more.
    return found[best_at] if scores[best_at] < scores[0] / 2 else found[0]


def _relative_gap(values: Any) -> float:
    gap = np.abs(values[:, 0] - values[:, 1]).max()
    return float(np.nan_to_num(gap / (np.abs(values).max() + 1e-300), nan=np.inf))
