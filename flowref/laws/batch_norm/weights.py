r"""Laws of the weights of a linear map before a batch normalizer, x = u W, whose scale
normalization takes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import largest, per_channel, ratio, summed
from flowref.laws.batch_norm.conditions import normalizes, takes_eps, understood
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.gradients import Backward, backward, random_cotangent
from flowref.laws.batch_norm.normalizer import channels, input_gradient
from flowref.model import Array, Batch, Residual
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Pullback, Train

# Features before the layer, samples, and the size of a step of gradient descent on the weights.
INPUTS, ROWS, RATE = 4, 8, 0.1


class Linear(NamedTuple):
    """A linear map before the layer: x = u W, over samples and positions."""

    u: Array
    matrix: Array

    def x(self, flow: BatchNormal) -> Array:
        """The batch `(rows, channels, *positions)`."""
        flat = (self.u @ self.matrix).reshape(ROWS, *flow.event_shape[1:], channels(flow))
        return np.moveaxis(flat, -1, 1)

    def gradient(self, dx: Array) -> Array:
        """Of the loss with respect to the matrix, `(inputs, channels)`."""
        return np.asarray((self.u.T.astype(np.longdouble) @ per_channel(dx).T), dtype=np.float64)

    def terms(self, back: Backward) -> Array:
        """The size of the terms of what the gradient adds up along each column of the matrix."""
        sizes = np.abs(self.u).max() * np.abs(self.matrix).sum(0)
        return np.asarray(sizes * back.size() * len(self.u))


def random_linear(flow: BatchNormal, rng: np.random.Generator) -> Linear:
    """Random inputs, and weights whose channels differ in size."""
    values = ROWS * int(np.prod(flow.event_shape[1:]))
    matrix = rng.standard_normal((INPUTS, channels(flow)))
    matrix = matrix * 10.0 ** rng.uniform(-2.5, 1, channels(flow))
    return Linear(rng.standard_normal((values, INPUTS)), matrix)


@batch_norm_law(
    "batch-norm/weight-before-orthogonality",
    applies=understood,
    source="Ioffe and Szegedy 2015, section 3.3: the scale of a weight before the layer has no effect, up to eps",
)
def weight_before_orthogonality(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$ the gradient of a column of $W$ is orthogonal to it, up to $\epsilon$:
    $\langle W_k, dW_k \rangle = \frac{\epsilon}{v_k + \epsilon}\,w_k\,dw_k$.
    """
    rng = np.random.default_rng(batch.seed)
    linear = random_linear(flow, rng)
    back = backward(flow, linear.x(flow), rng)
    got = (linear.matrix * linear.gradient(back.dx)).sum(0)
    expected = back.eps / (back.var + back.eps) * summed(back.dhat * back.hat)
    return batch_residual(
        ratio(got - expected, linear.terms(back)),
        "the gradient of a weight has a part along it",
        got=got,
        expected=expected,
    )


@batch_norm_law(
    "batch-norm/weight-before-scale",
    applies=normalizes & takes_eps,
    source="Ioffe and Szegedy 2015, section 3.3: larger weights lead to smaller gradients, and the gradient of u is unchanged",
)
def weight_before_scale(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$, with $aW$ for $W$ and $a^2\epsilon$ for $\epsilon$, the gradient of the
    weights is $1/a$ times what it was and that of $u$ is the same.
    """
    rng = np.random.default_rng(batch.seed)
    linear = random_linear(flow, rng)
    factor, eps = float(rng.choice((0.125, 0.5, 4.0, 16.0))), float(rng.choice((1e-5, 0.1)))
    x = linear.x(flow)
    dy = random_cotangent(x, rng)
    dx, dx_scaled = (
        input_gradient(
            flow.play([Assign("eps", a**2 * eps), Train(), Pullback(a * x, dy)])[-1], a * x
        )
        for a in (1.0, factor)
    )
    columns = np.abs(linear.matrix).max(0)
    du = per_channel(dx) * columns[:, None]
    du_scaled = per_channel(dx_scaled) * (factor * columns)[:, None]
    dw, dw_scaled = linear.gradient(dx), linear.gradient(dx_scaled)
    value = [
        ratio(np.abs(factor * dw_scaled - dw).max(0), np.abs(linear.u).max() * summed(np.abs(dx))),
        ratio(np.abs(du_scaled - du).max(1), columns * largest(dx)),
    ]
    return batch_residual(
        np.stack(value),
        f"scaling the weights by {factor:g} does not scale their gradient by {1 / factor:g}",
    )


@batch_norm_law(
    "batch-norm/weight-before-growth",
    applies=understood,
    effort=3,
    source="a gradient orthogonal to a weight can only lengthen it: the effective learning rate of normalized weights decays",
)
def weight_before_growth(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$, a step of gradient descent makes $\|W_k\|^2$ larger by $\eta^2 \|dW_k\|^2$,
    less $2\eta\,\epsilon/(v_k + \epsilon)\,w_k\,dw_k$.
    """
    rng = np.random.default_rng(batch.seed)
    linear = random_linear(flow, rng)
    back = backward(flow, linear.x(flow), rng)
    gradient = linear.gradient(back.dx)
    length, steep = np.sqrt((linear.matrix**2).sum(0)), np.sqrt((gradient**2).sum(0))
    # The step of each column is as long as a part of the column, so that neither term hides the
    # other.
    rate = RATE * length / np.where(steep > 0, steep, 1.0)
    grown = ((linear.matrix - rate * gradient) ** 2).sum(0)
    expected = length**2 + rate**2 * steep**2
    expected -= 2 * rate * back.eps / (back.var + back.eps) * summed(back.dhat * back.hat)
    note = "the length of a weight does not grow as it must"
    size = length**2 + rate * linear.terms(back)
    return batch_residual(ratio(grown - expected, size), note, got=grown, expected=expected)
