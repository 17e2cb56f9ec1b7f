r"""Laws of the weights of a linear map before a batch normalizer, x = u W, whose scale
normalization takes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.gradients import pulled
from flowref.laws.batch_norm.layer import both, effective, normalizes, understood
from flowref.laws.batch_norm.oracle import (
    channels,
    largest,
    normalizer_law,
    per_channel,
    play,
    ratio,
    single,
    summed,
    told,
)
from flowref.model import Array, Batch, Residual, Subject
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Assign, Pullback, Train

# Features before the layer, and the size of a step of gradient descent on their weights.
INPUTS, RATE = 4, 0.1


class Fed(NamedTuple):
    """A linear map before the layer: x = u W, over samples and positions."""

    u: Array
    matrix: Array

    def x(self, subject: Subject, rows: int) -> Array:
        """The batch `(rows, channels, *positions)`."""
        flat = (self.u @ self.matrix).reshape(rows, *subject.event_shape[1:], channels(subject))
        return np.moveaxis(flat, -1, 1)

    def gradient(self, dx: Array) -> Array:
        """Of the loss with respect to the matrix, `(inputs, channels)`."""
        return np.asarray((self.u.T.astype(np.longdouble) @ per_channel(dx).T), dtype=np.float64)


def fed(flow: Flow, rng: np.random.Generator, rows: int) -> Fed:
    """Random inputs, and weights whose channels differ in size."""
    values = rows * int(np.prod(flow.event_shape[1:]))
    matrix = rng.standard_normal((INPUTS, channels(flow))) * 10.0 ** rng.uniform(
        -2.5, 1, channels(flow)
    )
    return Fed(rng.standard_normal((values, INPUTS)), matrix)


@normalizer_law(
    "batch-norm/weight-before-orthogonality",
    former="normalisation/weight-before-orthogonality",
    applies=understood,
    effort=4,
    source="Ioffe and Szegedy 2015, section 3.3: the scale of a weight before the layer has no effect, up to eps",
)
def weight_before_orthogonality(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$ the gradient of a column of $W$ is orthogonal to it, up to $\epsilon$:
    $\langle W_k, dW_k \rangle = \frac{\epsilon}{v_k + \epsilon}\,w_k\,dw_k$.
    """
    rng = np.random.default_rng(batch.seed)
    before = fed(flow, rng, 8)
    found = pulled(flow, before.x(flow, 8), rng)
    gradient = before.gradient(found.dx)
    got = (before.matrix * gradient).sum(0)
    expected = found.eps / (found.var + found.eps) * summed(found.dhat * found.hat)
    terms = np.abs(before.u).max() * np.abs(before.matrix).sum(0) * found.size() * len(before.u)
    return told(
        ratio(got - expected, terms),
        "the gradient of a weight has a part along it",
        got=got,
        expected=expected,
    )


@normalizer_law(
    "batch-norm/weight-before-scale",
    former="normalisation/weight-before-scale",
    applies=both(normalizes, effective("eps", (1e-3, 1e-2))),
    effort=4,
    source="Ioffe and Szegedy 2015, section 3.3: larger weights lead to smaller gradients, and the gradient of u is unchanged",
)
def weight_before_scale(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$, with $aW$ for $W$ and $a^2\epsilon$ for $\epsilon$, the gradient of the
    weights is $1/a$ times what it was and that of $u$ is the same.
    """
    rng = np.random.default_rng(batch.seed)
    before, factor, eps = (
        fed(flow, rng, 8),
        float(rng.choice((0.125, 0.5, 4.0, 16.0))),
        float(rng.choice((1e-5, 0.1))),
    )
    x = before.x(flow, 8)
    dy = single(rng.standard_normal(x.shape))
    found = []
    for scale in (1.0, factor):
        steps = [Assign("eps", scale**2 * eps), Train(), Pullback(scale * x, dy)]
        dx = play(flow, steps)[-1]["x"]
        found.append(np.zeros_like(x) if dx is None else np.asarray(dx, dtype=np.float64))
    one, other = (before.gradient(dx) for dx in found)
    columns = np.abs(before.matrix).max(0)
    size = np.abs(before.u).max() * summed(np.abs(found[0]))
    du_one = per_channel(found[0]) * columns[:, None]
    du_other = per_channel(found[1]) * (factor * columns)[:, None]
    du_size = columns * largest(found[0])
    value = [
        ratio(np.abs(factor * other - one).max(0), size),
        ratio(np.abs(du_other - du_one).max(1), du_size),
    ]
    return told(
        np.stack(value),
        f"scaling the weights by {factor:g} does not scale their gradient by {1 / factor:g}",
    )


@normalizer_law(
    "batch-norm/weight-before-growth",
    former="normalisation/weight-before-growth",
    applies=understood,
    effort=3,
    source="a gradient orthogonal to a weight can only lengthen it: the effective learning rate of normalized weights decays",
)
def weight_before_growth(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$, a step of gradient descent makes $\|W_k\|^2$ larger by $\eta^2 \|dW_k\|^2$,
    less $2\eta\,\epsilon/(v_k + \epsilon)\,w_k\,dw_k$.
    """
    rng = np.random.default_rng(batch.seed)
    before = fed(flow, rng, 8)
    found = pulled(flow, before.x(flow, 8), rng)
    gradient = before.gradient(found.dx)
    length, steep = np.sqrt((before.matrix**2).sum(0)), np.sqrt((gradient**2).sum(0))
    # The step of each column is as long as a part of the column, so that neither term hides the
    # other.
    rate = RATE * length / np.where(steep > 0, steep, 1.0)
    grown = ((before.matrix - rate * gradient) ** 2).sum(0)
    expected = length**2 + rate**2 * steep**2
    expected -= 2 * rate * found.eps / (found.var + found.eps) * summed(found.dhat * found.hat)
    terms = np.abs(before.u).max() * np.abs(before.matrix).sum(0) * found.size() * len(before.u)
    note = "the length of a weight does not grow as it must"
    return told(
        ratio(grown - expected, length**2 + rate * terms), note, got=grown, expected=expected
    )
