r"""Running statistics: which known convention explains an update exactly.

$r \leftarrow (1 - f)\, r + f\, s$ with the statistic s of the batch. The fraction f is the momentum
(torch), one minus it (where momentum is the factor of the old value), 1/t for the t-th batch (a
plain average), or 1/t until that is less than the momentum (an average that warms up); the variance
that enters is unbiased or biased, or makes up with the means that of all values so far: by shares, or with
the sums of squares divided by one less than their count. None of these is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import largest, moments, per_channel, ratio
from flowref.laws.batch_norm.normalizer import Parameters, Running, random_batch
from flowref.model import Array
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Normalize, Roles, Step, Train

# Sizes of the batches in a history.
SIZES = (5, 11, 3, 8)
# Up to here a convention explains a history.
EXPLAINS = 1e-6
NEW, KEEP, AVERAGE, WARMING, UNKNOWN, POOLED, COUNTED = (
    "new",
    "keep",
    "average",
    "warming",
    "unknown",
    "pooled",
    "counted",
)


class History(NamedTuple):
    """Train-mode batches, and the parameters before the first and after each of them."""

    batches: list[Array]
    parameters: list[Parameters]


class Convention(NamedTuple):
    """How running statistics are updated: the meaning of the momentum, and n - ``freedom`` in the
    variance that enters.
    """

    momentum: str
    freedom: int


def trained(flow: BatchNormal, batches: list[Array]) -> History:
    """The history of some batches."""
    steps: list[Step[Any]] = [step for x in batches for step in (Normalize(x), Roles())]
    life = flow.play([Roles(), Train(), *steps])
    return History(batches, [Parameters.of(flow, roles) for roles in (life[0], *life[3::2])])


def random_history(flow: BatchNormal, rng: np.random.Generator) -> History:
    """The history of a few batches of different sizes."""
    return trained(flow, [random_batch(flow, rng, rows) for rows in SIZES])


def fractions(momentum: str, history: History) -> list[float]:
    """The fraction with which each batch enters, by a convention; nan where the convention cannot
    be meant.
    """
    first, count = history.parameters[0], len(history.batches)
    if momentum == AVERAGE:
        return [
            np.nan if before.num_batches is None else 1 / (before.num_batches + 1)
            for before in history.parameters[:count]
        ]
    if momentum in (UNKNOWN, POOLED, COUNTED):
        return measured(history)
    if first.momentum is None:
        return [np.nan] * count
    if momentum in (NEW, KEEP):
        return [first.momentum if momentum == NEW else 1 - first.momentum] * count
    # The first batch tells the number of batches so far; the others follow.
    start = measured(history)[0]
    if not 0 < start <= 1:
        return [np.nan] * count
    least, earlier = min(first.momentum, 1 - first.momentum), round(1 / start)
    return [max(least, 1 / (earlier + index)) for index in range(count)]


def measured(history: History) -> list[float]:
    """The fraction with which each batch entered the running mean, by least squares over the
    channels.
    """
    values = []
    for x, (before, after) in zip(history.batches, pairwise(history.parameters), strict=True):
        way = moments(x)[0] - before.running.mean
        with np.errstate(all="ignore"):
            moved = way * (after.running.mean - before.running.mean)
            values.append(float(moved.sum() / (way**2).sum()))
    return values


def constant(history: History) -> float | None:
    """The fraction with which every batch entered the running mean, where it is one: a momentum,
    whether or not an attribute tells it.
    """
    first, *others = measured(history)
    if not 0 < first <= 1 or any(abs(other - first) > EXPLAINS * first for other in others):
        return None
    return first


def gaps(history: History, convention: Convention) -> Array:
    """How far a history is from a convention, `(batches, 2, channels)`: of the mean and of the
    variance, relative.
    """
    rows = []
    steps = zip(
        history.batches,
        pairwise(history.parameters),
        fractions(convention.momentum, history),
        strict=True,
    )
    for x, (before, after), fraction in steps:
        mean, var = updated(before.running, x, convention, fraction)
        own = moments(x, convention.freedom)[1]
        columns = [
            ratio(np.abs(new - expected), np.abs(old) + size)
            for old, new, expected, size in (
                (before.running.mean, after.running.mean, mean, largest(x)),
                (before.running.var, after.running.var, var, own),
            )
        ]
        rows.append(np.stack(columns))
    value = np.stack(rows)
    return np.where(np.isnan(value), np.inf, value)


def updated(old: Running, x: Array, convention: Convention, share: float) -> Running:
    """Running statistics after a batch, by a convention."""
    freedom = convention.freedom
    mean, var = moments(x, freedom)
    if convention.momentum == POOLED:
        # The variance of all values so far has a part between the batches.
        var = var + (1 - share) * (mean - old.mean) ** 2
    new = (1 - share) * old.var + share * var
    if convention.momentum == COUNTED:
        new = of_all(old, x, share, freedom)
    return Running((1 - share) * old.mean + share * mean, new)


def of_all(old: Running, x: Array, share: float, freedom: int) -> Array:
    """The variance of all values so far, sums of squares divided by their number less ``freedom``; the
    share of a batch in the mean tells how many there were.
    """
    mean, var = moments(x)
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
    """The convention that explains a history best, among those admitted, torch's first, and how far
    the history is from it.
    """
    has_momentum = history.parameters[0].momentum is not None
    kinds = [NEW, KEEP, WARMING] if has_momentum else [AVERAGE, UNKNOWN, POOLED]
    conventions = [Convention(kind, freedom) for kind in kinds for freedom in (1, 0)]
    # With n the shares tell it all.
    conventions += [] if has_momentum else [Convention(COUNTED, 1)]
    distances = [(one, gaps(history, one)) for one in conventions if admitted(one)]
    return min(distances, key=lambda pair: float(pair[1].max()))
