"""Running statistics: how batches enter what eval mode normalizes by, by name and as measured from
its map; and how batches are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    broadcast_channels,
    channel_gap,
    channel_moments,
    largest_per_channel,
    nan_as_inf,
    ratio,
    worst,
)
from flowref.laws.batch_norm.averages import (
    EXPLAINS,
    KEEP,
    NEW,
    course,
    explained,
    fractions,
    of_all,
    random_history,
)
from flowref.laws.batch_norm.conditions import (
    averages,
    counts,
    has_axes,
    is_not_constant,
    is_per_channel,
    keeps_averages,
    keeps_some_statistics,
    normalizes,
    normalizes_batches,
    plainly_scaled,
    takes_momentum,
    tracked_layer,
    tracks,
    understood_and_tracks,
)
from flowref.laws.batch_norm.declaration import batch_norm_law, batch_residual
from flowref.laws.batch_norm.formula import (
    Parameters,
    Running,
    constant,
    fit_channel_line,
    scale_of,
)
from flowref.laws.batch_norm.normalizer import normal_batch, number_of_channels, random_batch
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import BOUND, EXACT, GIVEN, NEARBY, OPPOSITE, Array, Batch, Residual, Unsupported
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Run, Step, Train
from flowref.model.structure.line_fits import (
    WIDE,
    LineStatistics,
    Scale,
    line_statistics,
    update_fraction,
)

TORCH = "torch.nn.BatchNorm1d: running statistics, momentum and num_batches_tracked"

# By name.


@batch_norm_law(
    "batch-norm/statistics[buffers]",
    key="normalisation/running-update",
    picture=course,
    applies=averages,
    scales=NEARBY,
    source=f"{TORCH}; Keras calls momentum what torch calls one minus it, and both kinds of variance are kept by some",
)
def running_update(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Each train-mode batch moves the running mean and variance once, $r \leftarrow (1 - f)\,r +
    f\,s$, with one f for both: the momentum, one minus the momentum, or 1/t in an average over t
    batches; the variance s is the unbiased or the biased one.
    """
    history = random_history(flow, np.random.default_rng(batch.seed))
    convention, gap = explained(history)
    index = int(gap.max((1, 2)).argmax())
    x, before, after = list(history.updates())[index]
    mean, var = channel_moments(x, convention.freedom)
    return batch_residual(
        gap,
        "no known convention explains how the running statistics moved",
        running_mean=after.mean,
        nearest_running_mean=before.toward(
            mean, var, fractions(convention.momentum, history)[index]
        ).mean,
        running_var=after.var,
        variance_of_the_batch=var,
    )


@batch_norm_law(
    "batch-norm/statistics[momentum-limits]",
    key="normalisation/momentum-limits",
    picture=course,
    applies=averages & takes_momentum,
    effort=2,
    scales=GIVEN,
    source=TORCH,
)
def momentum_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """At one end of the momentum, 0 or 1, the running statistics are those of the last batch; at
    the other they are constant.
    """
    rng = np.random.default_rng(batch.seed)
    convention, gap = explained(random_history(flow, rng))
    if convention.momentum not in (NEW, KEEP) or not gap.max() < EXPLAINS:
        raise Unsupported("its running statistics follow no fixed momentum")
    x, ends = random_batch(flow, rng), []
    for momentum in (0.0, 1.0):
        steps = [Assign("momentum", momentum), Roles(), Train(), Normalize(x), Roles()]
        ends.append([Parameters.of(flow, roles).running for roles in flow.play(steps)[1::3]])
    gaps = []
    for (_, last), (before, after) in (ends[::-1], ends):
        for freedom in (1, 0):
            own = Running(*channel_moments(x, freedom))
            follows = last.off(own, largest_per_channel(x) + np.abs(own.mean), 2 * own.var)
            stays = after.off(before, 1 + np.abs(before.mean), 1 + np.abs(before.var))
            gaps.append(nan_as_inf(np.vstack([follows, stays])))
    return batch_residual(min(gaps, key=worst), "momentum 0 and 1 are not the two limits")


@batch_norm_law(
    "batch-norm/statistics[counter]",
    key="normalisation/batch-counter",
    tolerance=EXACT,
    applies=tracks & counts,
    effort=2,
    scales=GIVEN,
    source=TORCH,
)
def batch_counter(flow: BatchNormal, batch: Batch) -> Residual:
    """The number of batches grows by one in every train-mode call, and in no eval-mode call."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    call: list[Step[Any]] = [Normalize(x), Roles()]
    life = flow.play([Roles(), Train(), *call, *call, Eval(), *call])
    counted = [Parameters.of(flow, life[index]).num_batches for index in (0, 3, 5, 8)]
    before, once, twice, evaluated = (np.nan if one is None else one for one in counted)
    if None in counted:
        raise Unsupported("its counter holds no number")
    wrong = (once - before, twice - once, evaluated - twice) != (1, 1, 0)
    trace = f"{before:g}, {once:g} and {twice:g} after two batches"
    return flags(wrong, 1, f"the counter was {trace}, {evaluated:g} after one in eval mode")


@batch_norm_law(
    "batch-norm/statistics[inverse]",
    key="normalisation/inverse-keeps-statistics",
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=GIVEN,
    source="statistics belong to the data that is normalized; a step that also inverts must not count its batch twice",
)
def inverse_keeps_statistics(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the inverse call does not change the running statistics."""
    x = random_batch(flow, np.random.default_rng(batch.seed))
    which = OPPOSITE[flow.normalizer.call]
    life, error = attempt(flow.play, [Train(), Normalize(x), Roles(), Run(which, x), Roles()])
    if error:
        raise Unsupported(f"its {which} is refused in train mode")
    before, after = (Parameters.of(flow, roles).running for roles in (life[2], life[4]))
    return flags(not np.array_equal(before, after), 1, f"its {which} moved the running statistics")


# Repetitions of one batch before running statistics are compared with its own.
TIMES = 60


@batch_norm_law(
    "batch-norm/modes-agree[average-limit]",
    key="normalisation/eval-approaches-train",
    applies=understood_and_tracks & averages,
    tolerance=BOUND,
    effort=2,
    scales=NEARBY,
    source="on stationary data the running statistics become those of the batches, so that the two modes agree",
)
def eval_approaches_train(flow: BatchNormal, batch: Batch) -> Residual:
    """After many train-mode passes over one batch, eval mode returns for it what train mode does,
    up to the remaining weight of older batches and the factor n/(n - 1) of an unbiased variance.
    """
    rng = np.random.default_rng(batch.seed)
    level = broadcast_channels(
        rng.choice((-1.0, 0.0, 2.0), number_of_channels(flow)), np.zeros((1, *flow.event_shape))
    )
    x = level + normal_batch(flow, rng, 24)
    shown = [Normalize(x)] * TIMES
    life = flow.play([Roles(), Train(), *shown, Eval(), Normalize(x), Roles()])
    before, after = Parameters.of(flow, life[0]), Parameters.of(flow, life[-1])
    share = remembered(flow, before, batch)
    weight, eps, (mean, var) = np.abs(after.scale), after.epsilon, channel_moments(x)
    # Bounds of the running statistics, and of the output where it deviates most from the mean.
    off_mean = share * np.abs(before.running.mean - mean)
    off_var = share * np.abs(before.running.var - var) + var / (x[:, 0].size - 1)
    if (off_var > 0.5 * var).any() or share > 0.5:
        raise Unsupported("older batches still have too much weight in its average to compare")
    reach, deviation = (
        largest_per_channel(x - broadcast_channels(mean, x)) + off_mean,
        np.sqrt(var + eps),
    )
    low = np.sqrt(np.maximum(var - off_var, 0) + eps)
    allowed = weight * (
        off_mean / low + reach * off_var / (low * deviation * (low + deviation))
    ) + 1e-9 * (1 + weight)
    value = nan_as_inf(channel_gap(life[-2], life[1 + TIMES], np.where(allowed > 0, allowed, 1.0)))
    note = "eval mode does not approach train mode on the same data" if worst(value) > 1 else ""
    return Residual(value.reshape(1, -1), allowed=1.0, note=note)


def remembered(flow: BatchNormal, before: Parameters, batch: Batch) -> float:
    """The remaining weight of statistics older than the shown batches. Raises `Unsupported` if the
    momentum is unknown.
    """
    if before.momentum is not None:
        convention, gap = explained(random_history(flow, np.random.default_rng(batch.seed)))
        kept = {NEW: 1 - before.momentum, KEEP: before.momentum}
        # Either factor may be that of the old value: the slower one is allowed.
        known = gap.max() < EXPLAINS and convention.momentum in kept
        return float((kept[convention.momentum] if known else max(kept.values())) ** TIMES)
    if before.num_batches is not None:
        return before.num_batches / (before.num_batches + TIMES)
    raise Unsupported("its momentum is not known")


# As measured from the map of eval mode.

# Batches of a history, and the fraction below which one counts as not entering.
BATCHES, STILL = 4, 1e-7
# The largest constant that may be an eps.
LARGEST_EPS = 0.1
# Batches after which a running average equals that of the batch, and the tolerance of a gain of
# one.
SHOWN, NEAR_ONE = 100, 0.05


class Moved(NamedTuple):
    """A train-mode batch, the statistics of eval mode before and after it, and the fraction with
    which the batch entered the mean.
    """

    x: Array
    before: LineStatistics
    after: LineStatistics
    share: float


def lived(flow: BatchNormal, scale: Scale, batches: list[Array]) -> list[Moved]:
    """The effect of batches on the statistics of eval mode, in one history."""
    z = normal_batch(flow, np.random.default_rng(6), 6)
    steps: list[Step[Any]] = [Eval(), Normalize(z)]
    for x in batches:
        steps += [Train(), Normalize(x), Eval(), Normalize(z)]
    evaluated = [fit_channel_line(z, y) for y in flow.play(steps)[1::4]]
    seen = [line_statistics(one.slope, one.level, scale) for one in evaluated]
    sizes = [
        largest_per_channel(x) + np.abs(before.mean)
        for x, before in zip(batches, seen, strict=False)
    ]
    return [
        Moved(x, old, new, update_fraction(channel_moments(x)[0], old.mean, new.mean, size))
        for x, size, (old, new) in zip(batches, sizes, pairwise(seen), strict=True)
    ]


@batch_norm_law(
    "batch-norm/statistics",
    key="normalisation/statistics-follow",
    applies=normalizes & keeps_some_statistics & is_not_constant,
    scales=NEARBY,
    source="Ioffe and Szegedy 2015, algorithm 2: inference uses averages of the statistics of training batches",
)
def statistics_follow(flow: BatchNormal, batch: Batch) -> Residual:
    r"""A train-mode batch moves the mean and the variance that eval mode normalizes by towards its
    own, once and both by one fraction f, $0 < f \le 1$, which does not grow from batch to batch;
    the average is that of a variance, a deviation or a precision, with n or n - 1, and with the
    eps of train mode.
    """
    return running_statistics_residual(flow, batch, scale_of(flow))


@batch_norm_law(
    "batch-norm/statistics[running-average]",
    key="normalisation/averages-follow",
    applies=normalizes_batches & keeps_averages & has_axes & is_per_channel & plainly_scaled,
    scales=GIVEN,
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E; Kingma and Ba 2015, Adam, section 3",
)
def averages_follow(flow: BatchNormal, batch: Batch) -> Residual:
    r"""If train mode normalizes by running averages, or corrects the batch towards them, each
    batch moves mean and variance of eval mode towards its own, once and both by one fraction f, $0
    < f \le 1$, which does not grow from batch to batch; a bias correction for the start applies to
    both.
    """
    known = Parameters.of(flow)
    plain = Scale(known.scale, known.shift, 0.0, 0)
    gains = [1.0, *fixed_gain(flow, batch)]
    found = [
        running_statistics_residual(
            flow, batch, plain._replace(weight=gain * plain.weight), eps_unknown=True
        )
        for gain in gains
    ]
    return min(found, key=lambda one: worst(np.asarray(one.value)))


def fixed_gain(flow: BatchNormal, batch: Batch) -> list[float]:
    """The constant gain of the output, measured after many batches of the largest spread; empty if
    it is one.
    """
    x = WIDE * random_batch(flow, np.random.default_rng(batch.seed), 16)
    run = Run(flow.normalizer.call, x)
    life, error = attempt(flow.play, [Train(), *[run] * SHOWN, Eval(), run])
    if error or np.shape(life[-1].value) != x.shape:
        return []
    slope = fit_channel_line(x, np.asarray(life[-1].value)).slope
    with np.errstate(all="ignore"):
        gains = [slope * np.sqrt(channel_moments(x, less)[1]) for less in (0, 1)]
    gain = min(gains, key=lambda one: float(np.abs(one - 1).max()))
    return [] if np.abs(gain - 1).max() < NEAR_ONE else [float(np.median(gain))]


def running_statistics_residual(
    flow: BatchNormal, batch: Batch, scale: Scale, eps_unknown: bool = False
) -> Residual:
    """The deviation of eval-mode statistics from an average of the batches, given the scale of the
    output; ``eps_unknown``: one constant is fitted.
    """
    rng = np.random.default_rng(batch.seed)
    rows = int(rng.integers(5, 12))
    history = lived(flow, scale, [random_batch(flow, rng, rows) for _ in range(BATCHES)])
    shares = [each.share for each in history]
    means = np.stack([off_mean(each) for each in history])
    variances = min(
        (
            np.stack([rule(each, known.eps) for each in history])
            for rule in rules()
            for known in (candidate_scales(history, scale) if eps_unknown else [scale])
        ),
        key=worst,
    )
    growth = max([later - earlier for earlier, later in pairwise(shares)] + [0.0])
    beyond = max([share - 1 for share in shares] + [-share for share in shares] + [0.0])
    still = float(any(abs(share) < STILL for share in shares))
    odd = np.full(number_of_channels(flow), max(growth, beyond, still))
    gaps = {
        "eval mode does not follow the batches: its mean stays": still,
        f"the fractions of the batches are {', '.join(f'{share:.4g}' for share in shares)}": max(
            growth, beyond
        ),
        "the mean that eval mode subtracts did not move like an average": worst(means),
        "the variance that eval mode divides by did not move like its mean": worst(variances),
    }
    last = history[-1]
    return batch_residual(
        nan_as_inf(np.vstack([means, variances, odd])),
        max(gaps, key=lambda name: gaps[name]),
        fraction=shares[-1],
        variance_and_eps_used=last.after.inside,
        before=last.before.inside,
        variance_of_the_batch=channel_moments(last.x)[1],
    )


def off_mean(moved: Moved) -> Array:
    """The relative deviation of the mean from the update by its fraction, ``(channels,)``."""
    x, before, after, share = moved
    expected = (1 - share) * before.mean + share * channel_moments(x)[0]
    return ratio(np.abs(after.mean - expected), np.abs(before.mean) + largest_per_channel(x))


# The residual of a batch by one rule of averaging, given eps, ``(channels,)``.
Rule = Callable[[Moved, float], Array]
# Functions of variance plus eps that may be averaged.
AVERAGED: tuple[Callable[[Array, float], Array], ...] = (
    lambda inside, eps: np.sqrt(inside),
    lambda inside, eps: np.sqrt(inside - eps),
    lambda inside, eps: 1 / np.sqrt(inside),
    lambda inside, eps: 1 / inside,
    lambda inside, eps: np.log(inside),
)


def rules() -> Iterator[Rule]:
    """Averaging rules of the variance: plain, pooled with the means, or of another function of it;
    with n or n - 1.
    """
    for less in (1, 0):
        yield averaged(less, lambda inside, eps: inside)
        yield pooled(less)
        yield cumulative_rule(less)
        yield beside_the_root(less)
        for held in AVERAGED:
            yield averaged(less, held)


def averaged(less: int, held: Callable[[Array, float], Array]) -> Rule:
    """The average of a function of variance plus eps."""

    def rule(moved: Moved, eps: float) -> Array:
        x, before, after, share = moved
        with np.errstate(all="ignore"):
            inside = (before.inside, after.inside, channel_moments(x, less)[1] + eps)
            old, new, own = (held(each, eps) for each in inside)
            gap = np.abs(new - (1 - share) * old - share * own)
            return nan_as_inf(ratio(gap, np.abs(old) + np.abs(own)))

    return rule


def beside_the_root(less: int) -> Rule:
    """The average of a deviation to which eps is added, as in batch renormalization."""

    def rule(moved: Moved, eps: float) -> Array:
        x, before, after, share = moved
        own = np.sqrt(channel_moments(x, less)[1]) + eps
        with np.errstate(all="ignore"):
            old, new = np.sqrt(before.inside), np.sqrt(after.inside)
            return nan_as_inf(ratio(np.abs(new - (1 - share) * old - share * own), old + own))

    return rule


def pooled(less: int) -> Rule:
    """The variance of all values so far, weighted by shares."""

    def rule(moved: Moved, eps: float) -> Array:
        x, before, after, share = moved
        mean, var = channel_moments(x, less)
        between = share * (1 - share) * (mean - before.mean) ** 2
        expected = (1 - share) * before.inside + share * (var + eps) + between
        return nan_as_inf(ratio(np.abs(after.inside - expected), before.inside + var + between))

    return rule


def cumulative_rule(less: int) -> Rule:
    """The same, as sums of squares divided by n or n - 1 of all values so far."""

    def rule(moved: Moved, eps: float) -> Array:
        x, before, after, share = moved
        expected = of_all(Running(before.mean, before.inside - eps), x, share, less) + eps
        size = np.abs(expected) + before.inside + channel_moments(x, less)[1]
        return nan_as_inf(ratio(np.abs(after.inside - expected), size))

    return rule


def candidate_scales(history: list[Moved], scale: Scale) -> list[Scale]:
    """The scale with each eps left open by the channel and batch of smallest variance: zero, and
    those for which a plain average, one of deviations with eps inside or outside of the root, or
    one of all values so far, would be exact there.
    """
    moved = min(history, key=lambda one: float(channel_moments(one.x)[1].min()))
    x, before, after, share = moved
    channel = int(channel_moments(x)[1].argmin())
    old, new, found = before.inside[channel], after.inside[channel], []
    for less in (0, 1):
        mean, var = channel_moments(x, less)
        between = share * (1 - share) * (mean - before.mean) ** 2
        for part in (0.0, between[channel]):
            with np.errstate(all="ignore"):
                found.append(float((new - (1 - share) * old - part) / share - var[channel]))
        deviation = (np.sqrt(new) - (1 - share) * np.sqrt(old)) / share
        found.append(float(deviation**2 - var[channel]))
        found.append(float(deviation - np.sqrt(var[channel])))
    # The expected sums of squares divided by their number minus one are linear in eps.
    plain, less_one = (
        of_all(Running(before.mean, before.inside - eps), x, share, 1)[channel]
        for eps in (0.0, 1.0)
    )
    with np.errstate(all="ignore"):
        found.append(float((new - plain) / (1 + less_one - plain)))
    kept = [0.0, *(constant(eps) for eps in found if 0 <= eps <= LARGEST_EPS)]
    return [scale._replace(eps=eps) for eps in dict.fromkeys(kept)]
