r"""Laws of the statistics that eval mode uses, as its map shows them: how batches move them, and what
odd batches leave behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    largest,
    moments,
    nan_as_inf,
    ratio,
    single,
    wide,
    worst,
)
from flowref.laws.batch_norm.averaging import of_all
from flowref.laws.batch_norm.conditions import normalizes, usual
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.measuring import (
    Scale,
    Used,
    constant,
    is_not_constant,
    keeps_some_statistics,
    line,
    scale_of,
    used,
)
from flowref.laws.batch_norm.normalizer import Running, channels, normal_batch, random_batch
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import EXACT, Array, Batch, Residual
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Normalize, State, Step, Train

# Batches of a history, and the fraction below which one enters not at all.
BATCHES, STILL = 4, 1e-7
# The largest constant that is taken for an eps.
LARGEST_EPS = 0.1


class Moved(NamedTuple):
    """A train-mode batch, and what eval mode normalized by before and after it."""

    x: Array
    before: Used
    after: Used


@batch_norm_law(
    "batch-norm/statistics-follow",
    applies=normalizes & keeps_some_statistics & is_not_constant,
    scales=(0.0, 0.3),
    source="Ioffe and Szegedy 2015, algorithm 2: inference uses averages of the statistics of training batches",
)
def statistics_follow(flow: BatchNormal, batch: Batch) -> Residual:
    r"""A train-mode batch moves the mean and the variance that eval mode normalizes by towards its
    own, once and both by one fraction f, $0 < f \le 1$, which does not grow from batch to batch; as
    a variance, a deviation or a precision is averaged, with n or n - 1, and with the eps of train
    mode.
    """
    return followed(flow, batch, scale_of(flow))


def followed(flow: BatchNormal, batch: Batch, scale: Scale, eps_unknown: bool = False) -> Residual:
    """How the statistics of eval mode follow batches, given what they are scaled and shifted by;
    ``eps_unknown``: one constant is left open.
    """
    rng = np.random.default_rng(batch.seed)
    rows = int(rng.integers(5, 12))
    history = list(lived(flow, scale, [random_batch(flow, rng, rows) for _ in range(BATCHES)]))
    shares = [fraction(each) for each in history]
    means = np.stack(
        [
            ratio(
                np.abs(
                    each.after.mean - (1 - share) * each.before.mean - share * moments(each.x)[0]
                ),
                np.abs(each.before.mean) + largest(each.x),
            )
            for each, share in zip(history, shares, strict=True)
        ]
    )
    variances = min(
        (
            np.stack(
                [rule(each, share, known) for each, share in zip(history, shares, strict=True)]
            )
            for rule in rules()
            for known in (constants(history, shares, scale) if eps_unknown else [scale])
        ),
        key=worst,
    )
    growth = max([later - earlier for earlier, later in pairwise(shares)] + [0.0])
    beyond = max([share - 1 for share in shares] + [-share for share in shares] + [0.0])
    still = float(any(abs(share) < STILL for share in shares))
    odd = np.full(channels(flow), max(growth, beyond, still))
    value = nan_as_inf(np.vstack([means, variances, odd[None]]))
    gaps = {
        "eval mode does not follow the batches: its mean stays": still,
        f"the fractions of the batches are {', '.join(f'{share:.4g}' for share in shares)}": max(
            growth, beyond
        ),
        "the mean that eval mode takes away moved otherwise than an average": worst(means),
        "the variance that eval mode divides by did not move as its mean did": worst(variances),
    }
    note = max(gaps, key=lambda name: gaps[name])
    last = history[-1]
    return batch_residual(
        value,
        note,
        fraction=shares[-1],
        variance_and_eps_used=last.after.inside,
        before=last.before.inside,
        variance_of_the_batch=moments(last.x)[1],
    )


def constants(history: list[Moved], shares: list[float], scale: Scale) -> list[Scale]:
    """The scale with each constant that the channel and batch of the smallest variance leave open: none,
    and those by which a plain average, or one of all values so far, would be exact there.
    """
    index = min(range(len(history)), key=lambda at: float(moments(history[at].x)[1].min()))
    moved, share = history[index], shares[index]
    channel = int(moments(moved.x)[1].argmin())
    found = [0.0]
    for less in (0, 1):
        mean, var = moments(moved.x, less)
        between = share * (1 - share) * (mean - moved.before.mean) ** 2
        for part in (0.0, between[channel]):
            old, new = moved.before.inside[channel], moved.after.inside[channel]
            with np.errstate(all="ignore"):
                eps = float((new - (1 - share) * old - part) / share - var[channel])
            if 0 <= eps <= LARGEST_EPS:
                found.append(constant(eps))
    eps = of_counts(moved, share, channel)
    if 0 <= eps <= LARGEST_EPS:
        found.append(constant(eps))
    return [scale._replace(eps=eps) for eps in dict.fromkeys(found)]


def of_counts(moved: Moved, share: float, channel: int) -> float:
    """The constant by which sums of squares divided by their number less one would be exact: what is
    expected of a variance is linear in it.
    """
    mean, inside = moved.before.mean, moved.before.inside
    plain, less = (
        of_all(Running(mean, inside - eps), moved.x, share, 1)[channel] for eps in (0.0, 1.0)
    )
    with np.errstate(all="ignore"):
        return float((moved.after.inside[channel] - plain) / (1 + less - plain))


def lived(flow: BatchNormal, scale: Scale, batches: list[Array]) -> Iterator[Moved]:
    """What batches do to the statistics of eval mode, in one life."""
    z = normal_batch(flow, np.random.default_rng(6), 6)
    steps: list[Step[Any]] = [Eval(), Normalize(z)]
    for x in batches:
        steps += [Train(), Normalize(x), Eval(), Normalize(z)]
    outcomes = flow.play(steps)[1::2]
    seen = [used(line(z, y), scale) for y in outcomes[::2]]
    for index, x in enumerate(batches):
        yield Moved(x, seen[index], seen[index + 1])


def fraction(moved: Moved) -> float:
    """The fraction with which a batch entered the mean, by least squares over the channels."""
    mean, size = moments(moved.x)[0], largest(moved.x) + np.abs(moved.before.mean)
    way = (mean - moved.before.mean) / size
    with np.errstate(all="ignore"):
        return float((way * (moved.after.mean - moved.before.mean) / size).sum() / (way**2).sum())


Rule = Callable[[Moved, float, Scale], Array]


def rules() -> Iterator[Rule]:
    """How a variance may be averaged: as it is, with what the means add, or as another function of
    it; with n or n - 1.
    """
    for less in (1, 0):
        yield from (
            averaged(less, lambda inside, eps: inside),
            pooled(less),
            counted(less),
            averaged(less, lambda inside, eps: np.sqrt(inside)),
            averaged(less, lambda inside, eps: np.sqrt(inside - eps)),
            averaged(less, lambda inside, eps: 1 / np.sqrt(inside)),
            averaged(less, lambda inside, eps: 1 / inside),
            averaged(less, lambda inside, eps: np.log(inside)),
        )


def averaged(less: int, held: Callable[[Array, float], Array]) -> Rule:
    """The average of a function of the variance with eps."""

    def rule(moved: Moved, share: float, scale: Scale) -> Array:
        var = moments(moved.x, less)[1] + scale.eps
        with np.errstate(all="ignore"):
            old, new, own = (
                held(inside, scale.eps) for inside in (moved.before.inside, moved.after.inside, var)
            )
            gap = np.abs(new - (1 - share) * old - share * own)
            return nan_as_inf(ratio(gap, np.abs(old) + np.abs(own)))

    return rule


def pooled(less: int) -> Rule:
    """The variance of all values so far."""

    def rule(moved: Moved, share: float, scale: Scale) -> Array:
        mean, var = moments(moved.x, less)
        between = share * (1 - share) * (mean - moved.before.mean) ** 2
        old = moved.before.inside
        expected = (1 - share) * old + share * (var + scale.eps) + between
        return nan_as_inf(ratio(np.abs(moved.after.inside - expected), old + var + between))

    return rule


def counted(less: int) -> Rule:
    """The same, sums of squares divided by n or n - 1, with n of all values so far."""

    def rule(moved: Moved, share: float, scale: Scale) -> Array:
        old = Running(moved.before.mean, moved.before.inside - scale.eps)
        expected = of_all(old, moved.x, share, less) + scale.eps
        own = moments(moved.x, less)[1]
        gap = np.abs(moved.after.inside - expected)
        return nan_as_inf(ratio(gap, np.abs(expected) + moved.before.inside + own))

    return rule


@batch_norm_law(
    "batch-norm/constant-batch",
    tolerance=EXACT,
    applies=usual,
    effort=2,
    scales=(0.0,),
    source="a feature that is constant over a batch has variance 0: a state that users reach, with a feature that is rare",
)
def constant_batch(flow: BatchNormal, batch: Batch) -> Residual:
    """A train-mode batch in which a channel is constant raises an error, or leaves every parameter
    and buffer finite, and the next ordinary batch is normalized to finite values in both modes.
    """
    rng = np.random.default_rng(batch.seed)
    odd = normal_batch(flow, rng, 6)
    odd[:, int(rng.integers(channels(flow)))] = single(
        wide(np.array([rng.choice((0.0, 0.5, -3.0))]), odd)
    )[0]
    return survived(flow, rng, odd, "a channel was constant")


def survived(flow: BatchNormal, rng: np.random.Generator, odd: Array, said: str) -> Residual:
    """Whether what follows a batch is finite, where that batch is not refused."""
    x = normal_batch(flow, rng, 6)
    steps: list[Step[Any]] = [Train(), Normalize(odd), State(), Normalize(x), Eval(), Normalize(x)]
    usual_life, refused = attempt(flow.play, [Train(), Normalize(x), Eval(), Normalize(x)])
    if refused or not all(np.isfinite(usual_life[index]).all() for index in (1, 3)):
        return flags(False, 1)  # no batch is normalized, which other laws report
    life, error = attempt(flow.play, steps)
    if error:
        return flags(False, 1)
    bad = [
        name
        for name, value in life[2].items()
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all()
    ]
    bad += [
        f"the next batch in {mode} mode"
        for mode, index in (("train", 3), ("eval", 5))
        if not np.isfinite(life[index]).all()
    ]
    return flags(bool(bad), 1, f"after a batch in which {said}, {', '.join(bad)} is not finite")
