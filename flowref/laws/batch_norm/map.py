"""The map of a batch normalizer: in train mode the formula with the statistics of the batch, in
eval mode with the running ones. One law states the formula; the others state consequences at
chosen batches, and apply to normalizers whose numbers are not all known.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    broadcast_channels,
    channel_gap,
    channel_moments,
    largest_per_channel,
    nan_as_inf,
    per_channel,
    ratio,
    standardized,
    worst,
)
from flowref.laws.batch_norm.conditions import (
    channelled,
    has_no_other_statistics,
    has_no_statistics,
    has_parameters,
    is_fixed,
    is_not_constant,
    keeps_some_statistics,
    keeps_statistics,
    normalizes,
    normalizes_by_averages,
    takes_eps,
    tells_eps,
    train_is_eval_map,
    understood,
    usual,
)
from flowref.laws.batch_norm.declaration import batch_norm_law, batch_residual
from flowref.laws.batch_norm.formula import Parameters, fit_channel_line, scale_of
from flowref.laws.batch_norm.normalizer import (
    normal_batch,
    number_of_channels,
    output,
    random_batch,
    settable,
    spread_out,
)
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt, flags
from flowref.model import EXACT, GIVEN, NEARBY, Array, Batch, Requirement, Residual
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Nudge, Reload, Roles, Run, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithm 1"
TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
APPENDIX = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E"
# Another formula is named if it is closer than this, relative to the reference.
LIKE = 1e-4
# Exponents of the spreads of batches, the change of parameters, and factors of inputs.
SPREADS, MOVE, FACTORS = (-4.0, 2.0), 0.3, (-1.0, 0.03, -0.5, 7.0, -40.0)


@batch_norm_law(
    "batch-norm/train-map[reference]",
    key="normalisation/matches-reference",
    applies=understood,
    effort=10,
    source=IOFFE,
)
def matches_reference(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The output is $w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel, with mean and biased
    variance of the batch in train mode and with the running statistics in eval mode.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    known = Parameters.of(flow)
    _, evaluated, _, trained = flow.play([Eval(), Normalize(x), Train(), Normalize(x)])
    size = known.magnitude(known.hat(x, *channel_moments(x, known.freedom)))
    rows = [known.off(trained, x, *channel_moments(x, known.freedom))]
    nearer = [
        f": {name}"
        for name, other in other_formulas(x, known.epsilon, known.freedom).items()
        if channel_gap(trained, known.affine(other), size).max() < LIKE * rows[0].max()
    ]
    notes = ["in train mode the output is not the reference's" + "".join(nearer[:1])]
    if len(known.statistics) == 2:
        rows.append(known.off(evaluated, x, *known.running))
        notes.append("in eval mode the output is not the reference's")
    furthest = int(np.argmax([worst(row) for row in rows]))
    return batch_residual(np.stack(rows), notes[furthest])


def other_formulas(x: Array, eps: float, freedom: int) -> dict[str, Array]:
    """A batch standardized by formulas with a common bug, by description."""
    mean, var = channel_moments(x, freedom)
    return {
        "the variance is divided by n - 1 instead of n": standardized(
            x, *channel_moments(x, 1 - freedom), eps
        ),
        "eps is outside the square root": (x - broadcast_channels(mean, x))
        / (np.sqrt(broadcast_channels(var, x)) + eps),
        "eps is left out": standardized(x, mean, var, 0.0),
    }


# The formula, for normalizers with known numbers.


@batch_norm_law(
    "batch-norm/eval-map[fixed]",
    key="normalisation/fixed-map",
    applies=channelled & is_fixed & keeps_statistics & tells_eps,
    effort=2,
    scales=GIVEN,
    source="torchvision.ops.FrozenBatchNorm2d: the statistics and the affine parameters are fixed",
)
def fixed_map(flow: BatchNormal, batch: Batch) -> Residual:
    r"""A layer that is one fixed map in both modes uses the numbers that it holds, whatever they
    are set to: $w (x - m) / \sqrt{v + \epsilon} + b$ per channel, with its running mean and
    variance.
    """
    rng, count = np.random.default_rng(batch.seed), number_of_channels(flow)
    x = random_batch(flow, rng)
    ends = {"running_mean": (-1, 1), "running_var": (0.3, 2), "weight": (0.5, 1.5), "bias": (-1, 1)}
    steps = [Assign(role, rng.uniform(*both, count)) for role, both in ends.items()]
    steps = [one for one in steps if one.role in flow.normalizer.roles and settable(flow, one)]
    # They are loaded into a new object by state_dict, so that folded numbers are folded again.
    asked = [Roles(), Eval(), Normalize(x)]
    life, error = attempt(flow.play, [*steps, Reload(), *asked])
    roles, _, y = flow.play(asked) if error else life[-3:]
    known = Parameters.of(flow, roles)
    return batch_residual(
        known.off(y, x, *known.running), "it does not use the numbers that it holds"
    )


@batch_norm_law(
    "batch-norm/modes-agree[running-average]",
    key="normalisation/running-map",
    applies=channelled & normalizes_by_averages,
    scales=NEARBY,
    source=APPENDIX,
)
def running_map(flow: BatchNormal, batch: Batch) -> Residual:
    """If train mode normalizes by running averages, it maps a batch as eval mode does right after
    it, log-det included, and by one line per channel.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    run = Run(flow.normalizer.call, x)
    _, trained, _, evaluated = flow.play([Train(), run, Eval(), run])
    one, two = np.asarray(trained.value), np.asarray(evaluated.value)
    rows = [channel_gap(one, two, largest_per_channel(two)), fit_channel_line(x, one).relative]
    if trained.ladj is not None and evaluated.ladj is not None:
        first, second = (reported(flow, out, len(x)) for out in (trained, evaluated))
        gap = float(np.abs(first - second).max() / (1 + np.abs(second).max()))
        rows.append(np.full(x.shape[1], gap))
    return batch_residual(
        np.stack(rows), "train mode and the eval mode after it are different maps"
    )


# Consequences of the formula that calls show, whatever the names.


@batch_norm_law(
    "batch-norm/train-map",
    key="normalisation/train-map",
    applies=normalizes,
    source=IOFFE,
    version=2,
)
def train_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode every channel of the output is one affine function of the input, the same at
    all samples and positions, and its mean is the same for every batch, also for one sample with
    several positions, and for sequences with as many positions as channels.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng), random_batch(flow, rng)
    batches = [(points, output(flow, points, Train())) for points in (x, other)]
    others = [(1, flow.event_shape)] if math.prod(flow.event_shape[1:]) > 1 else []
    others += [(0, (number_of_channels(flow),) * 2)] if len(flow.event_shape) == 2 else []
    for rows, shape in others:
        points = random_batch(flow, rng, rows, shape)
        out, _ = attempt(output, flow, points, Train())  # which may be rejected
        batches += [] if out is None or np.shape(out) != points.shape else [(points, out)]
    off = nan_as_inf(np.stack([fit_channel_line(*one).relative for one in batches]))
    (_, y), *rest = batches
    gaps = [
        ratio(
            np.abs(channel_moments(y)[0] - channel_moments(out)[0]),
            largest_per_channel(y) + largest_per_channel(out),
        )
        for _, out in rest
    ]
    if off.max() > np.max(gaps):
        note = "in train mode a channel of the output is not affine in the input"
    else:
        note = "the mean of the output depends on the batch"
    return batch_residual(np.vstack([off, gaps]), note)


@batch_norm_law(
    "batch-norm/train-map[deviation]",
    key="normalisation/deviation",
    applies=normalizes & is_not_constant,
    source=IOFFE,
)
def deviation(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode a channel is divided by $\sqrt{v + \epsilon}$, with the variance of the batch
    about its mean and one constant, whatever the spread and the offset of the batch.
    """
    rng, scale = np.random.default_rng(batch.seed), scale_of(flow)
    spread = 10.0 ** rng.uniform(*SPREADS, number_of_channels(flow))
    offset = spread * rng.choice((0.0, 0.5, -1.0, 3.0), number_of_channels(flow))
    x = spread_out(normal_batch(flow, rng, int(rng.integers(4, 12))), spread, offset)
    got, var = (
        fit_channel_line(x, output(flow, x, Train())).slope,
        channel_moments(x, scale.freedom)[1],
    )
    expected = scale.weight / np.sqrt(var + scale.eps)
    # Cancellation in E[x^2] - E[x]^2 is reported by another law.
    return batch_residual(
        ratio(np.abs(got - expected), np.abs(expected)),
        f"the slope is not weight / sqrt(variance + eps), with eps {scale.eps:g} as a batch of "
        "tiny spread shows it",
        slope=got,
        expected_slope=expected,
        variance=var,
    )


@batch_norm_law(
    "batch-norm/modes-agree",
    key="normalisation/modes-agree",
    applies=normalizes & keeps_some_statistics & has_parameters & is_not_constant,
    source="Ioffe and Szegedy 2015, algorithm 2: inference replaces the statistics and keeps the learned scale and shift",
)
def modes_agree(flow: BatchNormal, batch: Batch) -> Residual:
    """Parameters have the same effect in both modes: the change of scale and shift of the output
    is that of train mode in eval mode, too.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    step = Nudge(batch.seed % 1000, MOVE)
    one, two = (output(flow, x, *before, Train()) for before in ((), (step,)))
    fixed_one, fixed_two = (output(flow, x, *before, Eval()) for before in ((), (step,)))
    slope, slope_moved = fit_channel_line(x, one).slope, fit_channel_line(x, two).slope
    shift, shift_moved = channel_moments(one)[0], channel_moments(two)[0]
    left = broadcast_channels(slope, x) * (fixed_two - broadcast_channels(shift_moved, x))
    right = broadcast_channels(slope_moved, x) * (fixed_one - broadcast_channels(shift, x))
    size = np.abs(slope) * (largest_per_channel(fixed_two) + np.abs(shift_moved))
    size = size + np.abs(slope_moved) * (largest_per_channel(fixed_one) + np.abs(shift))
    return batch_residual(
        channel_gap(left, right, size),
        "a change of the parameters changes eval mode differently from train mode",
        slope_in_train_mode=slope,
        slope_in_train_mode_after=slope_moved,
    )


@batch_norm_law(
    "batch-norm/eval-map",
    key="normalisation/eval-affine-map",
    applies=usual & keeps_some_statistics,
    effort=4,
    source="Ioffe and Szegedy 2015, algorithm 2: with fixed statistics normalization is one affine map per channel",
)
def eval_affine_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode every channel of the output is one fixed affine function of the same entry of
    the input.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng, 6), random_batch(flow, rng, 6)
    part = float(rng.uniform(0.2, 0.8))
    points = (x, other, part * x + (1 - part) * other, np.zeros_like(x), np.ones_like(x))
    _, one, two, between, origin, ones = flow.play([Eval(), *map(Normalize, points)])
    slope, level = (
        per_channel(values)[:, 0].astype(np.float64) for values in (ones - origin, origin)
    )
    size = largest_per_channel(one) + largest_per_channel(two) + largest_per_channel(origin)
    size_line = size + np.abs(slope) * largest_per_channel(x) + largest_per_channel(ones)
    affine_one, mixed = (
        broadcast_channels(slope, x) * x + broadcast_channels(level, x),
        part * one + (1 - part) * two,
    )
    if flow.normalizer.declared.get("clipped"):
        mixed = np.where(
            extreme_outputs(one) | extreme_outputs(two) | extreme_outputs(between), between, mixed
        )
        affine_one = np.where(extreme_outputs(one), one, affine_one)
    return batch_residual(
        np.stack([channel_gap(between, mixed, size), channel_gap(one, affine_one, size_line)]),
        "in eval mode it is no fixed affine map per channel",
        slope=slope,
    )


def extreme_outputs(y: Array) -> Array:
    """Where outputs are the largest or the smallest, as clamped ones are."""
    return np.asarray((y == np.max(y)) | (y == np.min(y)))


# Responses to another input.


def centered(y: Array) -> Array:
    """An output minus its mean per channel, which is the bias."""
    return np.asarray(y - broadcast_channels(channel_moments(y)[0], y))


def extent(y: Array) -> Array:
    """The size of an output plus that of its centered part, ``(channels,)``."""
    return largest_per_channel(y) + largest_per_channel(centered(y))


@batch_norm_law(
    "batch-norm/train-map[scale]",
    key="normalisation/scale-law",
    applies=normalizes & takes_eps,
    effort=4,
    source="Ioffe and Szegedy 2015, section 3.3, BN((aW)u) = BN(Wu), made exact for every eps and every sign",
)
def scale_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}_\epsilon(a x) = \mathrm{sign}(a)\,\mathrm{BN}_{\epsilon/a^2}(x)$ in train
    mode, up to the bias, for every $a \ne 0$.
    """
    rng = np.random.default_rng(batch.seed)
    x, factor = random_batch(flow, rng), float(rng.choice(FACTORS))
    eps = float(rng.choice((1e-5, 1e-3, 0.1)))
    one = output(flow, factor * x, Assign("eps", eps), Train())
    other = output(flow, x, Assign("eps", eps / factor**2), Train())
    note = f"scaling the input by {factor:g} does not act as scaling eps by {factor**-2:g}"
    gap = channel_gap(centered(one), np.sign(factor) * centered(other), extent(one))
    return batch_residual(gap, note)


# Relations of the modes.


@batch_norm_law(
    "batch-norm/eval-map[without-tracking]",
    key="normalisation/without-tracking",
    applies=has_no_statistics & has_no_other_statistics & normalizes,
    effort=2,
    scales=NEARBY,
    source=f"{TORCH}: track_running_stats=False",
)
def without_tracking(flow: BatchNormal, batch: Batch) -> Residual:
    """Without running statistics, eval mode normalizes by the batch, like train mode."""
    x = normal_batch(flow, np.random.default_rng(batch.seed), 7)
    trained, evaluated = output(flow, x, Train()), output(flow, x, Eval())
    value = channel_gap(evaluated, trained, largest_per_channel(trained))
    return batch_residual(value, "eval mode does not normalize by the batch")


# It has trained parameters and a momentum, and its name does not declare a fixed map.
means_to_learn = Requirement(
    lambda flow: (
        "momentum" in flow.normalizer.roles
        and flow.trainable
        and not flow.normalizer.declared.get("frozen")
    ),
    "it is frozen on purpose",
)


@batch_norm_law(
    "batch-norm/modes-agree[difference]",
    key="normalisation/train-mode-normalizes",
    tolerance=EXACT,
    applies=channelled & keeps_statistics & means_to_learn,
    effort=1,
    scales=GIVEN,
    source="Ioffe and Szegedy 2015, algorithm 2: training normalizes by the batch, and inference by its averages",
)
def train_mode_normalizes(flow: BatchNormal, batch: Batch) -> Residual:
    """The train-mode map of a layer with a momentum and trained parameters differs from its
    eval-mode map, unless it is called frozen.
    """
    note = "in train mode it is the same fixed map as in eval mode, and no batch moves its averages"
    return flags(train_is_eval_map(flow), 1, note)
