r"""Running statistics: which known convention explains an update exactly.

$r \leftarrow (1 - f)\, r + f\, s$ with the statistic s of the batch. The fraction f is the momentum
(torch), one minus it (where momentum is the factor of the old value), 1/t for the t-th batch (a
plain average), or 1/t until that is less than the momentum (an average that warms up); the variance
that enters is unbiased or biased. None of these is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.oracle import (
    Held,
    channels,
    drawn,
    held,
    largest,
    moments,
    play,
    ratio,
)
from flowref.model import Array
from flowref.model.abilities import Flow
from flowref.model.steps import Normalize, Roles, Train

# Sizes of the batches in a history.
SIZES = (5, 11, 3, 8)
# Up to here a convention explains a history.
EXPLAINS = 1e-6
NEW, KEEP, AVERAGE, WARMING, UNKNOWN = "new", "keep", "average", "warming", "unknown"


class History(NamedTuple):
    """Batches, and what was held before the first and after each of them."""

    batches: list[Array]
    holdings: list[Held]


class Convention(NamedTuple):
    """How running statistics are updated: the meaning of the momentum, and n - ``freedom`` in the
    variance kept.
    """

    momentum: str
    freedom: int


def lived(flow: Flow, rng: np.random.Generator, how: str = "plain") -> History:
    """A few train-mode batches of different sizes."""
    batches = [drawn(flow, rng, rows) for rows in SIZES]
    steps = [step for x in batches for step in (Normalize(x, how), Roles())]
    outcomes = play(flow, [Roles(), Train(), *steps])
    return History(batches, [held(outcomes[0]), *(held(found) for found in outcomes[3::2])])


def fractions(momentum: str, history: History) -> list[float]:
    """The fraction with which each batch enters, by a convention; nan where the convention cannot
    be meant.
    """
    first, count = history.holdings[0], len(history.batches)
    if momentum in (NEW, KEEP):
        part = (
            np.nan
            if first.momentum is None
            else first.momentum
            if momentum == NEW
            else 1 - first.momentum
        )
        return [part] * count
    if momentum == AVERAGE:
        return [
            np.nan if one.num_batches is None else 1 / (one.num_batches + 1)
            for one in history.holdings[:count]
        ]
    measured = [seen(history, place) for place in range(count)]
    if momentum == UNKNOWN:
        return measured
    # The first batch tells the number of batches so far; the others follow.
    if first.momentum is None or not np.isfinite(measured[0]) or not 0 < measured[0] <= 1:
        return [np.nan] * count
    least, start = min(first.momentum, 1 - first.momentum), round(1 / measured[0])
    return [max(least, 1 / (start + place)) for place in range(count)]


def seen(history: History, place: int) -> float:
    """The fraction with which a batch entered the running mean, by least squares over the channels."""
    before, after = history.holdings[place].running_mean, history.holdings[place + 1].running_mean
    assert before is not None
    assert after is not None
    way = moments(history.batches[place])[0] - before
    with np.errstate(all="ignore"):
        return float((way * (after - before)).sum() / (way**2).sum())


def gaps(flow: Flow, history: History, convention: Convention) -> Array:
    """How far a history is from a convention, `(batches, 2, channels)`: of the mean and of the
    variance, relative.
    """
    rows = []
    shares = fractions(convention.momentum, history)
    for x, before, after, part in zip(
        history.batches, history.holdings, history.holdings[1:], shares, strict=False
    ):
        mean, var = moments(x, convention.freedom)
        columns = []
        size = largest(x)
        old_new = (
            (before.running_mean, after.running_mean, mean, size),
            (before.running_var, after.running_var, var, var),
        )
        for old, new, statistic, magnitude in old_new:
            if old is None or new is None:
                columns.append(np.full(channels(flow), np.inf))
                continue
            expected = (1 - part) * old + part * statistic
            columns.append(ratio(np.abs(new - expected), np.abs(old) + magnitude))
        rows.append(np.stack(columns))
    value = np.stack(rows)
    return np.where(np.isnan(value), np.inf, value)


def explained(
    flow: Flow, history: History, wanted: Callable[[Convention], bool] | None = None
) -> tuple[Convention, Array]:
    """The convention that explains a history best, among those wanted, torch's first, and how far
    the history is from it.
    """
    first = history.holdings[0]
    kinds = [NEW, KEEP, WARMING] if first.momentum is not None else [AVERAGE, UNKNOWN]
    known = [Convention(kind, freedom) for kind in kinds for freedom in (1, 0)]
    found = [(one, gaps(flow, history, one)) for one in known if wanted is None or wanted(one)]
    return min(found, key=lambda pair: float(pair[1].max()))
