"""Laws of the map that a batch normalizer is: in train mode the formula with the statistics of the
batch, in eval mode with those that it keeps. One law states the formula, and the others what follows
of it at batches chosen for that, so that they hold of normalizers whose numbers are not all known.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    nan_as_inf,
    per_channel,
    ratio,
    single,
    standardized,
    wide,
    worst,
)
from flowref.laws.batch_norm.conditions import (
    affine,
    channelled,
    fixed,
    has_channels,
    has_no_affine,
    has_no_other_parameters,
    has_no_other_statistics,
    has_no_statistics,
    has_parameters,
    has_positions,
    is_fixed,
    is_not_constant,
    keeps_some_statistics,
    keeps_statistics,
    normalizes,
    normalizes_by_averages,
    takes_eps,
    takes_momentum,
    takes_parameters,
    tells_eps,
    tracked_layer,
    understood,
    understood_and_tracks,
    usual,
)
from flowref.laws.batch_norm.declaration import batch_norm_law, batch_residual
from flowref.laws.batch_norm.formula import Parameters, line, scale_of
from flowref.laws.batch_norm.normalizer import (
    channels,
    normal_batch,
    output,
    random_batch,
    settable,
    spread_out,
)
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt, flags, state_gap
from flowref.laws.common.requirements import as_built
from flowref.model import ADVICE, EXACT, Array, Batch, Requirement, Residual, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Nudge, Reload, Roles, Run, State, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), algorithm 1"
TORCH = "torch.nn.BatchNorm1d, BatchNorm2d and BatchNorm3d"
APPENDIX = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E"
# Another formula is named if it is nearer than this, relative to the reference.
LIKE = 1e-4
# Exponents of the spreads of batches, by how much parameters are moved, and by what inputs are multiplied.
SPREADS, MOVE, FACTORS = (-4.0, 2.0), 0.3, (-1.0, 0.03, -0.5, 7.0, -40.0)


@batch_norm_law(
    "batch-norm/train-map[reference]",
    key="normalisation/matches-reference",
    former=("batch-norm/matches-reference",),
    applies=understood,
    effort=8,
    source=IOFFE,
)
def matches_reference(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The output is $w (x - \mu) / \sqrt{v + \epsilon} + b$ per channel, with mean and biased
    variance of the batch in train mode and with the running statistics in eval mode.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    known = Parameters.of(flow)
    _, evaluated, _, trained = flow.play([Eval(), Normalize(x), Train(), Normalize(x)])
    size = known.magnitude(known.hat(x, *moments(x, known.freedom)))
    rows = [known.off(trained, x, *moments(x, known.freedom))]
    nearer = [
        f": {name}"
        for name, other in other_formulas(x, known.epsilon, known.freedom).items()
        if apart(trained, known.affine(other), size).max() < LIKE * rows[0].max()
    ]
    notes = ["in train mode the output is not the reference's" + "".join(nearer[:1])]
    if len(known.statistics) == 2:
        rows.append(known.off(evaluated, x, *known.running))
        notes.append("in eval mode the output is not the reference's")
    furthest = int(np.argmax([worst(row) for row in rows]))
    return batch_residual(np.stack(rows), notes[furthest])


def other_formulas(x: Array, eps: float, freedom: int) -> dict[str, Array]:
    """A batch standardized by formulas that are taken for the reference's."""
    mean, var = moments(x, freedom)
    return {
        "the variance is divided by n - 1 instead of n": standardized(
            x, *moments(x, 1 - freedom), eps
        ),
        "eps is outside the square root": (x - wide(mean, x)) / (np.sqrt(wide(var, x)) + eps),
        "eps is left out": standardized(x, mean, var, 0.0),
    }


# What the formula gives, of a normalizer whose numbers are known.


@batch_norm_law(
    "batch-norm/train-map[moments]",
    key="normalisation/moments",
    former=("batch-norm/moments",),
    applies=understood,
    effort=6,
    source=IOFFE,
)
def output_moments(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode, before weight and bias, every channel of the output has mean 0 and variance
    $v / (v + \epsilon)$.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    known, (mean, var) = Parameters.of(flow), moments(output(flow, x, Train()))
    weight, bias = known.scale, known.shift
    expected = weight**2 * (moments(x)[1] / (moments(x, known.freedom)[1] + known.epsilon))
    rows = [
        ratio(mean - bias, np.abs(weight) + np.abs(bias)),
        ratio(var - expected, weight**2 + bias**2),
    ]
    return batch_residual(
        np.stack(rows),
        "mean or variance of the output is not what normalization makes it",
        mean=mean,
        variance=var,
        expected_mean=bias,
        expected_variance=expected,
    )


@batch_norm_law(
    "batch-norm/train-map[identity]",
    key="normalisation/identity-recovery",
    former=("batch-norm/identity-recovery",),
    applies=normalizes & takes_parameters & affine,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, section 3: scale and shift can represent the identity, for one batch",
)
def identity_recovery(flow: BatchNormal, batch: Batch) -> Residual:
    r"""With the weight $\sqrt{v + \epsilon}$ and the bias $\mu$ of a batch, that batch is returned
    as it is.
    """
    x, known = random_batch(flow, np.random.default_rng(batch.seed)), Parameters.of(flow)
    mean, var = moments(x, known.measured_freedom)
    weight = np.sqrt(var + known.epsilon)
    y = output(flow, x, Assign("weight", weight), Assign("bias", mean), Train())
    return batch_residual(apart(y, x, largest(x) + weight), "the batch does not come back")


@batch_norm_law(
    "batch-norm/train-map[two-values]",
    key="normalisation/two-values",
    former=("batch-norm/two-values",),
    applies=understood,
    source="algorithm 1 for two values: mean (a + b)/2, biased variance ((a - b)/2)^2",
)
def two_values(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Two values $a, b$ per channel become $\pm d / \sqrt{d^2 + 4\epsilon}$ with $d = a - b$,
    before weight and bias.
    """
    rng, count, known = np.random.default_rng(batch.seed), channels(flow), Parameters.of(flow)
    pair = single(rng.standard_normal((2, count)) * 10.0 ** rng.uniform(-3, 1, count))
    # The same at every position.
    x, difference = wide_rows(flow, pair), pair[0] - pair[1]
    y, values = output(flow, x, Train()), per_channel(x).shape[1]
    inside = difference**2 * values / (values - known.measured_freedom) + 4 * known.epsilon
    hat = wide_rows(flow, np.stack([difference, -difference]) / np.sqrt(inside))
    return batch_residual(
        apart(y, known.affine(hat), np.abs(known.scale) + np.abs(known.shift)),
        "two values are not mapped to the two values of the formula",
    )


def wide_rows(flow: BatchNormal, rows: Array) -> Array:
    """Rows of one value per channel, the same at every position."""
    events = rows.reshape(*rows.shape, *[1] * (len(flow.event_shape) - 1))
    return np.broadcast_to(events, (len(rows), *flow.event_shape)) + 0.0


@batch_norm_law(
    "batch-norm/train-map[without-affine]",
    key="normalisation/without-affine",
    former=("batch-norm/without-affine",),
    applies=has_no_affine & has_no_other_parameters & normalizes,
    effort=3,
    scales=(0.0,),
    source=f"{TORCH}: affine=False",
)
def without_affine(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Without weight and bias, train mode returns $\hat x = (x - \mu) / \sqrt{v + \epsilon}$
    itself.
    """
    x, known = random_batch(flow, np.random.default_rng(batch.seed)), Parameters.of(flow)
    off = known.off(output(flow, x, Train()), x, *moments(x, known.measured_freedom))
    return batch_residual(off, "the output is not the normalized input")


@batch_norm_law(
    "batch-norm/eval-map[fixed]",
    key="normalisation/fixed-map",
    former=("batch-norm/fixed-map",),
    applies=channelled & is_fixed & keeps_statistics & tells_eps,
    effort=2,
    scales=(0.0,),
    source="torchvision.ops.FrozenBatchNorm2d: the statistics and the affine parameters are fixed",
)
def fixed_map(flow: BatchNormal, batch: Batch) -> Residual:
    r"""A layer that is one fixed map in both modes maps by the numbers that it holds, whatever they are set to:
    $w (x - m) / \sqrt{v + \epsilon} + b$ per channel, with its running mean and variance.
    """
    rng, count = np.random.default_rng(batch.seed), channels(flow)
    x = random_batch(flow, rng)
    ends = {"running_mean": (-1, 1), "running_var": (0.3, 2), "weight": (0.5, 1.5), "bias": (-1, 1)}
    steps = [Assign(role, rng.uniform(*both, count)) for role, both in ends.items()]
    steps = [one for one in steps if one.role in flow.normalizer.roles and settable(flow, one)]
    # Into a new object they go by its state_dict, as numbers do that are used: what is folded is folded anew.
    asked = [Roles(), Eval(), Normalize(x)]
    life, error = attempt(flow.play, [*steps, Reload(), *asked])
    roles, _, y = flow.play(asked) if error else life[-3:]
    known = Parameters.of(flow, roles)
    return batch_residual(
        known.off(y, x, *known.running), "it does not map by the numbers that it holds"
    )


@batch_norm_law(
    "batch-norm/as-built[eval]",
    key="normalisation/eval-before-training",
    former=("batch-norm/eval-before-training",),
    force=ADVICE,
    applies=understood_and_tracks & as_built,
    effort=2,
    scales=(0.0,),
    history="fresh",
    source=f"{TORCH}: with running mean 0 and running variance 1, a new layer in eval mode hardly changes its input",
)
def eval_before_training(flow: BatchNormal, batch: Batch) -> Residual:
    r"""Evaluated before any training, a new layer returns $w\,x / \sqrt{1 + \epsilon} + b$."""
    x, known = random_batch(flow, np.random.default_rng(batch.seed)), Parameters.of(flow)
    y = output(flow, x, Eval())
    size = np.abs(known.scale) * largest(x) + np.abs(known.shift)
    return batch_residual(
        apart(y, known.affine(x / np.sqrt(1 + known.epsilon)), size),
        "an untrained layer in eval mode does not pass its input through",
    )


averaged = normalizes_by_averages & tracked_layer


@batch_norm_law(
    "batch-norm/statistics[running-average-use]",
    key="normalisation/running-average-used",
    former=("batch-norm/running-average-used",),
    applies=averaged,
    source=APPENDIX,
)
def running_average_used(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, these are the averages that the batch has
    entered already.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    _, y, roles = flow.play([Train(), Normalize(x), Roles()])
    known = Parameters.of(flow, roles)
    note = "train mode does not normalize by the running averages after the batch has entered them"
    return batch_residual(known.off(y, x, *known.running), note)


@batch_norm_law(
    "batch-norm/statistics[running-average-limits]",
    key="normalisation/running-average-limits",
    former=("batch-norm/running-average-limits",),
    applies=averaged & takes_momentum,
    effort=3,
    source=APPENDIX,
)
def running_average_limits(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, one end of the momentum makes it plain batch
    normalization and the other a fixed affine map by the old averages.
    """
    x, known = random_batch(flow, np.random.default_rng(batch.seed)), Parameters.of(flow)
    ends = [output(flow, x, Assign("momentum", end), Train()) for end in (0.0, 1.0)]
    gaps = [
        np.stack([known.off(old, x, *known.running), known.off(plain, x, *moments(x, freedom))])
        for old, plain in (ends, ends[::-1])
        for freedom in (0, 1)
    ]
    note = "the ends of the momentum are not batch normalization and a fixed map"
    return batch_residual(min(gaps, key=worst), note)


@batch_norm_law(
    "batch-norm/modes-agree[running-average]",
    key="normalisation/running-map",
    former=("batch-norm/running-map",),
    applies=channelled & normalizes_by_averages,
    scales=(0.0, 0.3),
    source=APPENDIX,
)
def running_map(flow: BatchNormal, batch: Batch) -> Residual:
    """Where train mode normalizes by running averages, it maps a batch as eval mode does right
    after it, log-det included, and one line per channel.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    run = Run(flow.normalizer.call, x)
    _, trained, _, evaluated = flow.play([Train(), run, Eval(), run])
    one, two = np.asarray(trained.value), np.asarray(evaluated.value)
    rows = [apart(one, two, largest(two)), line(x, one).relative]
    if trained.ladj is not None and evaluated.ladj is not None:
        first, second = (reported(flow, out, len(x)) for out in (trained, evaluated))
        gap = float(np.abs(first - second).max() / (1 + np.abs(second).max()))
        rows.append(np.full(x.shape[1], gap))
    return batch_residual(np.stack(rows), "train mode is another map than eval mode after it")


# What calls show of the formula, under whatever names.


@batch_norm_law(
    "batch-norm/train-map",
    key="normalisation/train-map",
    applies=normalizes,
    source=IOFFE,
    version=2,
)
def train_map(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode every channel of the output is a line in the input, the same at all samples and
    positions, and has a mean that is the same for every batch, also of one sample with several positions, and of
    sequences with as many positions as channels.
    """
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng), random_batch(flow, rng)
    batches = [(points, output(flow, points, Train())) for points in (x, other)]
    others = [(1, flow.event_shape)] if math.prod(flow.event_shape[1:]) > 1 else []
    others += [(0, (channels(flow),) * 2)] if len(flow.event_shape) == 2 else []
    for rows, shape in others:
        points = random_batch(flow, rng, rows, shape)
        out, _ = attempt(output, flow, points, Train())  # which may be refused
        batches += [] if out is None or np.shape(out) != points.shape else [(points, out)]
    off = nan_as_inf(np.stack([line(*one).relative for one in batches]))
    (_, y), *rest = batches
    gaps = [
        ratio(np.abs(moments(y)[0] - moments(out)[0]), largest(y) + largest(out)) for _, out in rest
    ]
    if off.max() > np.max(gaps):
        note = "in train mode a channel of the output is no line in the input"
    else:
        note = "the mean of the output depends on the batch"
    return batch_residual(np.vstack([off, gaps]), note)


@batch_norm_law(
    "batch-norm/train-map[deviation]",
    key="normalisation/deviation",
    former=("batch-norm/deviation",),
    applies=normalizes & is_not_constant,
    source=IOFFE,
)
def deviation(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode a channel is divided by $\sqrt{v + \epsilon}$, with the variance of the batch
    about its mean and one constant, whatever the spread and the offset of the batch.
    """
    rng, scale = np.random.default_rng(batch.seed), scale_of(flow)
    spread = 10.0 ** rng.uniform(*SPREADS, channels(flow))
    offset = spread * rng.choice((0.0, 0.5, -1.0, 3.0), channels(flow))
    x = spread_out(normal_batch(flow, rng, int(rng.integers(4, 12))), spread, offset)
    got, var = line(x, output(flow, x, Train())).slope, moments(x, scale.freedom)[1]
    expected = scale.weight / np.sqrt(var + scale.eps)
    # A cancellation of E[x^2] - E[x]^2 is the affair of another law.
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
    """Parameters act alike in both modes: what moving them does to scale and shift of the output in
    train mode, it does in eval mode.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed))
    step = Nudge(batch.seed % 1000, MOVE)
    one, two = (output(flow, x, *before, Train()) for before in ((), (step,)))
    fixed_one, fixed_two = (output(flow, x, *before, Eval()) for before in ((), (step,)))
    slope, slope_moved = line(x, one).slope, line(x, two).slope
    shift, shift_moved = moments(one)[0], moments(two)[0]
    left = wide(slope, x) * (fixed_two - wide(shift_moved, x))
    right = wide(slope_moved, x) * (fixed_one - wide(shift, x))
    size = np.abs(slope) * (largest(fixed_two) + np.abs(shift_moved))
    size = size + np.abs(slope_moved) * (largest(fixed_one) + np.abs(shift))
    return batch_residual(
        apart(left, right, size),
        "a change of the parameters changes eval mode in another way than train mode",
        slope_in_train_mode=slope,
        slope_in_train_mode_after=slope_moved,
    )


@batch_norm_law(
    "batch-norm/eval-map",
    key="normalisation/eval-affine-map",
    former=("batch-norm/eval-affine-map",),
    applies=usual & keeps_some_statistics,
    effort=6,
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
    size = largest(one) + largest(two) + largest(origin)
    size_line = size + np.abs(slope) * largest(x) + largest(ones)
    affine_one, mixed = wide(slope, x) * x + wide(level, x), part * one + (1 - part) * two
    if flow.normalizer.declared.get("clipped"):
        mixed = np.where(ends(one) | ends(two) | ends(between), between, mixed)
        affine_one = np.where(ends(one), one, affine_one)
    return batch_residual(
        np.stack([apart(between, mixed, size), apart(one, affine_one, size_line)]),
        "in eval mode it is no fixed affine map per channel",
        slope=slope,
    )


def ends(y: Array) -> Array:
    """Where outputs are the largest or the smallest, as those are that are cut off."""
    return np.asarray((y == np.max(y)) | (y == np.min(y)))


@batch_norm_law(
    "batch-norm/train-map[distribution-shape]",
    key="normalisation/shape-of-distribution",
    former=("batch-norm/shape-of-distribution",),
    applies=normalizes,
    scales=(0.0, 0.3),
    source="an affine map moves mean and variance and nothing else: normalized values are not made Gaussian",
)
def shape_of_distribution(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the standardized third and fourth moments of every channel are those of the
    input, but for the sign of the weight.
    """
    x = random_batch(flow, np.random.default_rng(batch.seed), 9)
    y = output(flow, x, Train())
    (third, fourth), (third_out, fourth_out) = higher_moments(x), higher_moments(y)
    third_gap = np.abs(np.abs(third_out) - np.abs(third)) / (1 + np.abs(third))
    rows = np.stack([third_gap, np.abs(fourth_out - fourth) / (1 + fourth)])
    return batch_residual(
        np.where(moments(y)[1] == 0, 0.0, rows),
        "the shape of the distribution changed",
        kurtosis=fourth_out,
        expected_kurtosis=fourth,
    )


def higher_moments(x: Array) -> tuple[Array, Array]:
    """Skewness and kurtosis of each channel."""
    rows = per_channel(x)
    rows = rows - rows.mean(1, keepdims=True)
    spread = np.sqrt((rows**2).mean(1, keepdims=True))
    rows = rows / np.where(spread > 0, spread, 1)
    return (rows**3).mean(1).astype(np.float64), (rows**4).mean(1).astype(np.float64)


# What another input changes.


def centered(y: Array) -> Array:
    """An output without its mean per channel, which is the bias."""
    return np.asarray(y - wide(moments(y)[0], y))


def extent(y: Array) -> Array:
    """The size of an output, with that of what is left of it without its mean."""
    return largest(y) + largest(centered(y))


@batch_norm_law(
    "batch-norm/train-map[scale]",
    key="normalisation/scale-law",
    former=("batch-norm/scale-law",),
    applies=normalizes & takes_eps,
    effort=6,
    source="Ioffe and Szegedy 2015, section 3.3, BN((aW)u) = BN(Wu), made exact for every eps and every sign",
)
def scale_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}_\epsilon(a x) = \mathrm{sign}(a)\,\mathrm{BN}_{\epsilon/a^2}(x)$ in train mode,
    apart from the bias, for every $a \ne 0$.
    """
    rng = np.random.default_rng(batch.seed)
    x, factor = random_batch(flow, rng), float(rng.choice(FACTORS))
    eps = float(rng.choice((1e-5, 1e-3, 0.1)))
    one = output(flow, factor * x, Assign("eps", eps), Train())
    other = output(flow, x, Assign("eps", eps / factor**2), Train())
    note = f"scaling the input by {factor:g} does not act as scaling eps by {factor**-2:g}"
    gap = apart(centered(one), np.sign(factor) * centered(other), extent(one))
    return batch_residual(gap, note)


@batch_norm_law(
    "batch-norm/train-map[shift]",
    key="normalisation/shift-law",
    former=("batch-norm/shift-law",),
    applies=normalizes,
    source="the mean of the batch moves with the batch",
)
def shift_law(flow: BatchNormal, batch: Batch) -> Residual:
    r"""$\mathrm{BN}(x + c) = \mathrm{BN}(x)$ in train mode, for any constant $c$ per channel."""
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    moved = x + wide(np.sqrt(moments(x)[1]) * rng.choice((-20.0, 0.5, 5.0), channels(flow)), x)
    one, other = (output(flow, points, Train()) for points in (x, moved))
    return batch_residual(
        apart(other, one, largest(one) + extent(one)),
        "a constant added to a channel changes the output",
    )


@batch_norm_law(
    "batch-norm/train-map[permutation]",
    key="normalisation/permutation-equivariance",
    former=("batch-norm/permutation-equivariance",),
    applies=usual,
    source="mean and variance of a batch are symmetric in its samples",
)
def permutation_equivariance(flow: BatchNormal, batch: Batch) -> Residual:
    """Samples in another order give the same outputs in that order, and the same state afterwards,
    in train mode.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    order = rng.permutation(len(x))
    return moved_along(flow, x, lambda rows: rows[order], "the order of the samples matters")


@batch_norm_law(
    "batch-norm/train-map[positions]",
    key="normalisation/positions-are-samples",
    former=("batch-norm/positions-are-samples",),
    applies=usual & has_positions,
    source="Ioffe and Szegedy 2015, section 3.2: all positions of a feature map are normalized together",
)
def positions_are_samples(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode a channel is normalized over samples and positions alike: values moved among
    them, in each channel on its own, are normalized to the same.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    orders = np.stack([rng.permutation(x[:, 0].size) for _ in range(channels(flow))])

    def moved(values: Array) -> Array:
        rows = np.moveaxis(values, 1, 0)
        flat = np.take_along_axis(rows.reshape(len(rows), -1), orders, 1)
        return np.moveaxis(flat.reshape(rows.shape), 0, 1)

    return moved_along(flow, x, moved, "a value's position in its channel matters")


def moved_along(flow: BatchNormal, x: Array, move: Callable[[Array], Array], note: str) -> Residual:
    """How far the output of values in other places is from the output in these, and what is kept
    of the one batch from what is kept of the other.
    """
    (_, y, state), (_, other, after) = (
        flow.play([Train(), Normalize(points), State()]) for points in (x, move(x))
    )
    gap = apart(other, move(y), largest(y) + extent(y))
    return batch_residual(np.append(gap, state_gap(state, after)), note)


@batch_norm_law(
    "batch-norm/train-map[channels]",
    key="normalisation/channel-independence",
    former=("batch-norm/channel-independence",),
    applies=usual & has_channels,
    source="Ioffe and Szegedy 2015, section 3: each feature is normalized independently",
)
def channel_independence(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode another content of one channel changes the output of that channel only."""
    rng = np.random.default_rng(batch.seed)
    x, other = random_batch(flow, rng, 7), random_batch(flow, rng, 7)
    channel = int(rng.integers(channels(flow)))
    changed = x.copy()
    changed[:, channel] = other[:, channel]
    one, two = (output(flow, points, Train()) for points in (x, changed))
    value = apart(two, one, largest(one) + extent(one))
    value[channel] = 0.0
    return batch_residual(value, f"channel {channel} enters other channels")


@batch_norm_law(
    "batch-norm/eval-map[distinct]",
    key="normalisation/regular-in-eval",
    former=("batch-norm/regular-in-eval",),
    tolerance=EXACT,
    applies=tracked_layer,
    effort=2,
    scales=(0.0,),
    source="normalization over the features of one sample (layer or instance norm) loses its mean and scale: it has no inverse",
)
def regular_in_eval(flow: BatchNormal, batch: Batch) -> Residual:
    """In eval mode samples that differ in their mean or in their scale have different outputs."""
    x = normal_batch(flow, np.random.default_rng(batch.seed), 3)
    if not (np.abs(Parameters.of(flow).scale) > 1e-3).all():
        raise Undecidable("a weight is too small to decide")
    points = (x, x + 1.0, 2.0 * x)
    _, y, *others = flow.play([Eval(), *map(Normalize, points)])
    size = largest(y).max() + 1e-300
    lost = [
        name
        for name, other in zip(("mean", "scale"), others, strict=True)
        if np.abs(other - y).max() <= 1e-9 * size
    ]
    return flags(bool(lost), 1, f"the output does not tell the {' or the '.join(lost)} of a sample")


# What the modes have to do with each other.


@batch_norm_law(
    "batch-norm/eval-map[without-tracking]",
    key="normalisation/without-tracking",
    former=("batch-norm/without-tracking",),
    applies=has_no_statistics & has_no_other_statistics & normalizes,
    effort=3,
    scales=(0.0, 0.3),
    source=f"{TORCH}: track_running_stats=False",
)
def without_tracking(flow: BatchNormal, batch: Batch) -> Residual:
    """Without running statistics, eval mode normalizes by the batch, as train mode does."""
    x = normal_batch(flow, np.random.default_rng(batch.seed), 7)
    trained, evaluated = output(flow, x, Train()), output(flow, x, Eval())
    value = apart(evaluated, trained, largest(trained))
    return batch_residual(value, "eval mode does not normalize by the batch")


# Something is trained, a momentum says how averages move, and its name says nothing of a fixed map.
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
    former=("batch-norm/train-mode-normalizes",),
    tolerance=EXACT,
    applies=channelled & keeps_statistics & means_to_learn,
    effort=1,
    scales=(0.0,),
    source="Ioffe and Szegedy 2015, algorithm 2: training normalizes by the batch, and inference by its averages",
)
def train_mode_normalizes(flow: BatchNormal, batch: Batch) -> Residual:
    """A layer with a momentum, and with parameters that are trained, is in train mode another map than in
    eval mode, unless it is called frozen.
    """
    note = "in train mode it is the same fixed map as in eval mode, and no batch moves its averages"
    return flags(fixed(flow), 1, note)
