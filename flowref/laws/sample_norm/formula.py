"""Instance, group and layer normalization, as measured by calls, whatever the names."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.arithmetic import ratio
from flowref.laws.batch_norm.normalizer import normal_batch, output
from flowref.laws.sample_norm.groups import (
    Divisor,
    at_no_threshold,
    centers,
    divisors,
    group_constants,
    keeps_nothing,
    normalizes_samples,
    spread_over,
    weight_and_bias,
)
from flowref.model import Batch, Residual, law, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Train, Weights
from flowref.model.structure.line_fits import NARROW, WIDE

BA, WU, ZHANG, SINGH = (
    "Ba et al. 2016, Layer Normalization (arXiv:1607.06450)",
    "Wu and He 2018, Group Normalization (arXiv:1803.08494)",
    "Zhang and Sennrich 2019, Root Mean Square Layer Normalization (arXiv:1910.07467)",
    "Singh and Krishnan 2019, Filter Response Normalization Layer (arXiv:1911.09737)",
)
# Samples for a linear fit, and rows of a batch that is judged.
MANY, ROWS = 24, 6
# A spread for which any trained eps is negligible.
HUGE = 1e20
# The shift of a value.
MOVED = 3.0


@requires("it holds parameters that are neither weights nor biases")
def holds_weights_alone(flow: BatchNormal) -> bool:
    """Every parameter has a number for each channel, group or entry: others may mix statistics, as
    in switchable normalization. Without a mean, one number per channel may be a threshold, or eps.
    """
    shape = flow.event_shape
    counts = {shape[0], shape[-1], int(np.prod(shape)), flow.normalizer.groups}
    return all(size in counts for size in others(flow)) and not (
        centers(flow) and {"weight", "bias"} <= set(flow.normalizer.roles) and others(flow)
    )


@requires("which of its values are normalized together is not known", blocked=True)
def whole_groups(flow: BatchNormal) -> bool:
    """One value affects the outputs of all values known to be normalized together with it. For
    root mean square norms the class name gives these.
    """
    if not centers(flow):
        return True
    x = normal_batch(flow, np.random.default_rng(9), 2)
    moved = x.copy()
    moved[(0,) * x.ndim] += MOVED
    together = spread_over(flow, moved - x)[1][0] > 0
    y, other = (output(flow, points, Train())[0] for points in (x, moved))
    return bool((other != y)[together].all())


def others(flow: BatchNormal) -> list[int]:
    """The sizes of parameters other than weight and bias."""
    step, known = Weights(), flow.normalizer.roles.values()
    trained = flow.play([step]).of(step)
    return [int(np.size(value)) for name, value in trained.items() if name not in known]


@law(
    "sample-norm/formula",
    version=3,
    applies=normalizes_samples & holds_weights_alone & whole_groups,
    size=1,
    local=False,
    effort=4,
    source=f"{BA}, section 3; {WU}, section 3; {ZHANG}, section 4; {SINGH}, section 3",
)
def formula(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode every entry of the output is $w (x - \mu) / \sqrt{v + \epsilon} + b$, or $w
    (x - \mu) / (\sqrt{v} + \epsilon) + b$, with mean and variance over the values of the sample
    that are normalized together, and one eps, whatever their spread and offset. Without centering,
    the mean is zero and the variance the mean square, and a threshold is permitted.
    """
    rng = np.random.default_rng(batch.seed)
    spread = HUGE if others(flow) else WIDE
    wide = spread * normal_batch(flow, rng, MANY)
    wide_y = output(flow, wide, Train())
    z = normal_batch(flow, rng, ROWS)
    if others(flow):  # each channel may have an eps of its own, which is negligible here
        found: list[tuple[float, Divisor]] = [(0.0, np.sqrt)]
    else:
        found, spread = divisors(flow, wide, wide_y, NARROW * z), 10.0 ** rng.uniform(-3, 2)
    x = spread * (z + group_constants(flow, rng, ROWS, 2.0))
    mean, var = spread_over(flow, x)
    y = output(flow, x, Train())
    free = at_no_threshold(flow, y)
    gaps = []
    for eps, divisor in found:
        weight, bias = weight_and_bias(flow, wide, wide_y, divisor)
        with np.errstate(all="ignore"):
            standard = (x - mean) / divisor(var)
            size = np.abs(weight) * (1 + np.abs(standard)) + np.abs(bias)
            gap = np.where(free & np.isfinite(weight), np.abs(y - weight * standard - bias), 0.0)
            off = ratio(gap, np.broadcast_to(size, y.shape))
        gaps.append((float(np.nan_to_num(off, nan=np.inf).max()), eps))
    worst, eps = min(gaps)
    note = f"the output is not weight times the standardized input plus bias, with eps {eps:g}"
    return Residual(np.array([[worst]]), note=note)


@law(
    "same/train-mode[per-sample]",
    key="sample-norm/modes-agree",
    applies=normalizes_samples & keeps_nothing,
    size=1,
    local=False,
    effort=4,
    source=f"{WU}, section 1: without statistics of batches, training and inference are the same",
)
def modes_agree(flow: BatchNormal, batch: Batch) -> Residual:
    """A layer that normalizes each sample by itself, without running statistics, is the same map
    in train and eval mode.
    """
    x = normal_batch(flow, np.random.default_rng(batch.seed), ROWS)
    trained, evaluated = output(flow, x, Train()), output(flow, x, Eval())
    if np.shape(trained) != np.shape(evaluated):
        return Residual(np.array([[np.inf]]), note="the modes return other shapes")
    off = (np.abs(trained - evaluated) / (1 + np.abs(trained))).max()
    return Residual(np.array([[off]]), note="train mode and eval mode are different maps")
