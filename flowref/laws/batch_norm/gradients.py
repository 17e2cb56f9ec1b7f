r"""Laws of the gradients of a batch normalizer, which pass through the mean and the variance of the
batch.

With $d\hat x = w\,dy$, $s = \sqrt{v + \epsilon}$ and sums over the n values of a channel,
$dx = (d\hat x - \overline{d\hat x} - \hat x \sum d\hat x\,\hat x / n) / s$; for a variance with n -
1 the last n is n - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    apart,
    largest,
    moments,
    ratio,
    single,
    standardized,
    summed,
    wide,
)
from flowref.laws.batch_norm.conditions import normalizes, understood, understood_and_tracks
from flowref.laws.batch_norm.declaring import batch_norm_law, batch_residual
from flowref.laws.batch_norm.normalizer import (
    Parameters,
    channels,
    epsilon,
    input_gradient,
    measured_freedom,
    random_batch,
)
from flowref.laws.common.outcomes import attempt, changed, listed
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Eval, Pullback, Pulled, Roles, State, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), section 3"
# The size of a step of gradient descent, relative to the spread of the input.
RATE = 0.1


class Backward(NamedTuple):
    """A train-mode batch with its gradients, and the parts of the closed form; per channel
    ``(channels,)``.
    """

    x: Array
    dy: Array
    dx: Array
    weight_gradient: Array | None
    bias_gradient: Array | None
    eps: float
    freedom: int
    var: Array
    hat: Array
    dhat: Array

    def closed(self) -> Array:
        """The gradient with respect to the input, by the closed form."""
        values = self.x[:, 0].size
        mean = wide(summed(self.dhat) / values, self.x)
        along = wide(summed(self.dhat * self.hat) / (values - self.freedom), self.x)
        return np.asarray(
            (self.dhat - mean - self.hat * along) / np.sqrt(wide(self.var, self.x) + self.eps)
        )

    def size(self) -> Array:
        """The magnitude of the terms of the closed form, per channel."""
        terms = largest(self.dhat) * (1 + largest(self.hat) ** 2)
        return np.asarray(terms / np.sqrt(self.var + self.eps))


def backward(flow: BatchNormal, x: Array, rng: np.random.Generator) -> Backward:
    """Pull a random cotangent back through a train-mode batch."""
    dy = random_cotangent(x, rng)
    step, pullback = Roles(), Pullback(x, dy)
    life = flow.play([step, Train(), pullback])
    parameters, pulled = Parameters.of(flow, life.of(step)), life.of(pullback)
    eps, freedom = epsilon(flow, parameters), measured_freedom(flow, parameters)
    mean, var = moments(x, freedom)
    dx = input_gradient(pulled, x)
    if dx.shape != x.shape:
        raise Undecidable(f"the gradient of an input of shape {x.shape} has shape {dx.shape}")
    hat, dhat = standardized(x, mean, var, eps), wide(parameters.scale, x) * dy
    weight, bias = per_parameter(pulled.weight), per_parameter(pulled.bias)
    return Backward(x, dy, dx, weight, bias, eps, freedom, var, hat, dhat)


def random_cotangent(x: Array, rng: np.random.Generator) -> Array:
    """Standard normal values in the shape of a batch."""
    return single(rng.standard_normal(x.shape))


def per_parameter(gradient: Array | None) -> Array | None:
    """The gradient of a parameter, one number per channel."""
    return None if gradient is None else np.asarray(gradient).reshape(-1)


def output_variance(pulled: Pulled) -> Array:
    """The variance of each channel of what was pulled back."""
    return moments(np.asarray(pulled.value, dtype=np.float64))[1]


@batch_norm_law(
    "batch-norm/backward-closed-form",
    applies=understood,
    effort=6,
    source=f"{IOFFE}, the gradients of the transform",
)
def backward_closed_form(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The train-mode gradients are
    $dx = (d\hat x - \overline{d\hat x} - \hat x\,\overline{d\hat x\,\hat x}) / \sqrt{v +
    \epsilon}$, $dw = \sum dy\,\hat x$ and $db = \sum dy$, with $d\hat x = w\,dy$.
    """
    rng = np.random.default_rng(batch.seed)
    back = backward(flow, random_batch(flow, rng), rng)
    closed = back.closed()
    rows = [apart(back.dx, closed, back.size())]
    notes = ["the gradient of the input is not the derivative of normalization"]
    size = summed(np.abs(back.dy)) * (1 + largest(back.hat))
    if back.weight_gradient is not None:
        rows.append(ratio(back.weight_gradient - summed(back.dy * back.hat), size))
        notes.append("the gradient of the weight is not the sum of dy times the normalized input")
    if back.bias_gradient is not None:
        rows.append(ratio(back.bias_gradient - summed(back.dy), size))
        notes.append("the gradient of the bias is not the sum of dy")
    furthest = int(np.argmax([row.max() for row in rows]))
    return batch_residual(
        np.stack(rows),
        notes[furthest],
        largest_dx=largest(back.dx),
        expected_largest_dx=largest(closed),
    )


@batch_norm_law(
    "batch-norm/gradient-sums-to-zero",
    applies=normalizes,
    source="the output does not depend on a constant added to a channel",
)
def gradient_sums_to_zero(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the gradients of the inputs of each channel sum to zero over samples and
    positions.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    _, pulled = flow.play([Train(), Pullback(x, dy)])
    dx = input_gradient(pulled, x)
    total = summed(dx)
    # The terms that cancel are as large as the slope of the map: the spread of the output over that
    # of the input.
    slope = np.sqrt(output_variance(pulled) / moments(x)[1])
    size = summed(np.abs(dx)) + slope * summed(np.abs(dy))
    return batch_residual(
        ratio(total, size), "a constant added to a channel has a gradient", sum=total
    )


@batch_norm_law(
    "batch-norm/gradient-along-output",
    applies=understood,
    source="the derivative of the variance takes out of the gradient what points along the output, up to eps",
)
def gradient_along_output(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode $\sum dx\,\hat x = \epsilon\,(v + \epsilon)^{-3/2} \sum d\hat x\,\hat x$ in
    every channel.
    """
    rng = np.random.default_rng(batch.seed)
    back = backward(flow, random_batch(flow, rng), rng)
    got = summed(back.dx * back.hat)
    expected = back.eps * (back.var + back.eps) ** -1.5 * summed(back.dhat * back.hat)
    size = back.size() * summed(np.abs(back.hat))
    note = "the gradient has a part along the output, as if the variance were a constant"
    return batch_residual(ratio(got - expected, size), note, got=got, expected=expected)


@batch_norm_law(
    "batch-norm/bias-before-is-idle",
    applies=normalizes,
    effort=3,
    scales=(0.0, 0.3),
    source="Ioffe and Szegedy 2015, section 2: without the gradient of the mean, a bias grows while the loss stays",
)
def bias_before_is_idle(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode, gradient descent on a bias that is added before the layer leaves the bias
    where it is.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    spread = np.sqrt(moments(x)[1])
    bias, moves = np.zeros(channels(flow)), np.zeros(channels(flow))
    for _ in range(3):
        _, pulled = flow.play([Train(), Pullback(x + wide(bias, x), dy)])
        gradient = summed(input_gradient(pulled, x))
        slope = np.sqrt(output_variance(pulled)) / spread
        # A step that moves the bias by a tenth of the spread where its gradient is as large as its
        # terms.
        reach = slope * summed(np.abs(dy))
        step = RATE * spread * np.where(reach > 0, gradient / np.where(reach > 0, reach, 1.0), 0.0)
        bias = bias - step
        moves = moves + np.abs(step)
    return batch_residual(
        ratio(moves, spread), "a bias before the layer is driven away by its gradient", bias=bias
    )


@batch_norm_law(
    "batch-norm/eval-still-trains",
    applies=understood_and_tracks,
    source="layers are put into eval mode inside a model in training to freeze their statistics, not their parameters",
)
def eval_still_trains(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In eval mode the statistics stay as they are while gradients flow:
    $dx = w\,dy / \sqrt{v + \epsilon}$, $dw = \sum dy\,\hat x$ and $db = \sum dy$ with the running
    statistics.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    steps = [Eval(), Roles(), State(), Pullback(x, dy), State()]
    played, error = attempt(flow.play, steps)
    if error:
        infinite = np.full(channels(flow), np.inf)
        return batch_residual(infinite, f"no gradient flows in eval mode ({error})")
    _, roles, before, pulled, after = played
    parameters = Parameters.of(flow, roles)
    (mean, var), eps = parameters.running, epsilon(flow, parameters)
    hat, deviation = standardized(x, mean, var, eps), np.sqrt(var + eps)
    slope = np.abs(parameters.scale) / deviation
    expected = wide(parameters.scale / deviation, x) * dy
    rows = [apart(input_gradient(pulled, x), expected, slope * largest(dy))]
    size = summed(np.abs(dy)) * (1 + largest(hat))
    for got, gradient in ((pulled.weight, summed(dy * hat)), (pulled.bias, summed(dy))):
        if got is not None:
            rows.append(ratio(np.asarray(got).reshape(-1) - gradient, size))
    note = "gradients in eval mode are not those of a fixed affine map"
    written = changed(before, after)
    if written:
        rows.append(np.full(channels(flow), np.inf))
        note = f"a call in eval mode changed {listed(written)}"
    return batch_residual(np.stack(rows), note)
