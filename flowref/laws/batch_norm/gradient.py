r"""Gradients of a batch normalizer, which pass through the mean and the variance of the batch.

With $d\hat x = w\,dy$, $s = \sqrt{v + \epsilon}$ and sums over the n values of a channel

$$dx = (d\hat x - \overline{d\hat x} - \hat x \sum d\hat x\,\hat x / n) / s;$$

For a variance with n - 1 the last n is n - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.arithmetic import (
    broadcast_channels,
    channel_gap,
    channel_moments,
    largest_per_channel,
    per_channel,
    ratio,
    standardized,
    summed,
    worst,
)
from flowref.laws.batch_norm.conditions import (
    is_not_constant,
    normalizes,
    normalizes_by_averages,
    takes_eps,
    tracked_layer,
    understood,
    understood_and_tracks,
)
from flowref.laws.batch_norm.declaration import batch_norm_law, batch_residual
from flowref.laws.batch_norm.formula import Parameters, fit_channel_line, scale_of
from flowref.laws.batch_norm.normalizer import (
    input_gradient,
    number_of_channels,
    random_batch,
    random_cotangent,
    random_pullback,
    undivided,
)
from flowref.laws.common.outcomes import attempt, changed, listed_names
from flowref.model import NEARBY, Array, Batch, Residual, Undecidable
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Pullback, Pulled, Roles, State, Train
from flowref.model.structure.line_fits import update_fraction

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167)"
# The size of a gradient step, relative to the spread of the input or to the length of a weight.
RATE = 0.1


class Vjp(NamedTuple):
    """The formula for a cotangent: the normalized input, the gradient of the input, and the size
    of its terms, ``(channels,)``.
    """

    hat: Array
    dx: Array
    size: Array


def vjp(x: Array, dy: Array, slope: Array, eps: float, freedom: int) -> Vjp:
    """The vector-Jacobian product of a train-mode batch with slopes $w / s$ of the channels:
    orthogonal to constants and to the output.
    """
    mean, var = channel_moments(x, freedom)
    hat, values = standardized(x, mean, var, eps), x[:, 0].size
    along = hat * broadcast_channels(summed(dy * hat) / (values - freedom), x)
    dx = broadcast_channels(slope, x) * (dy - broadcast_channels(summed(dy) / values, x) - along)
    return Vjp(
        hat, dx, np.abs(slope) * largest_per_channel(dy) * (1 + largest_per_channel(hat) ** 2)
    )


class Backward(NamedTuple):
    """A train-mode batch of a normalizer with known numbers: its gradients, those of the formula,
    and the variance plus eps, ``(channels,)``.
    """

    dy: Array
    pulled: Pulled
    dx: Array
    formula: Vjp
    eps: float
    inside: Array
    dhat: Array

    def along(self) -> Array:
        r"""$\sum d\hat x\,\hat x$ of each channel."""
        return summed(self.dhat * self.formula.hat)


def backward(flow: BatchNormal, x: Array, rng: np.random.Generator) -> Backward:
    """The gradients of a random cotangent of a train-mode batch."""
    known = Parameters.of(flow)
    dy, pulled = random_pullback(flow, x, rng, Train())
    inside = channel_moments(x, known.measured_freedom)[1] + known.epsilon
    dx, slope = input_gradient(pulled, x), known.scale / np.sqrt(inside)
    if dx.shape != x.shape:
        raise Undecidable(f"the gradient of an input of shape {x.shape} has shape {dx.shape}")
    formula = vjp(x, dy, slope, known.epsilon, known.measured_freedom)
    return Backward(
        dy, pulled, dx, formula, known.epsilon, inside, broadcast_channels(known.scale, x) * dy
    )


def off_parameters(pulled: Pulled, dy: Array, hat: Array) -> dict[str, Array]:
    r"""The deviation of the gradients of weight and bias, if any, from $\sum dy\,\hat x$ and $\sum
    dy$, relative to the size of their terms, ``(channels,)`` each, by error message.
    """
    size = summed(np.abs(dy)) * (1 + largest_per_channel(hat))
    found = {
        "the gradient of the weight is not the sum of dy times the normalized input": (
            pulled.weight,
            summed(dy * hat),
        ),
        "the gradient of the bias is not the sum of dy": (pulled.bias, summed(dy)),
    }
    return {
        note: ratio(np.asarray(got).reshape(-1) - expected, size)
        for note, (got, expected) in found.items()
        if got is not None
    }


@batch_norm_law(
    "batch-norm/gradient[closed-form]",
    key="normalisation/backward-closed-form",
    applies=understood,
    effort=4,
    source=f"{IOFFE}, section 3, the gradients of the transform",
)
def backward_closed_form(flow: BatchNormal, batch: Batch) -> Residual:
    r"""The train-mode gradients are
    $dx = (d\hat x - \overline{d\hat x} - \hat x\,\overline{d\hat x\,\hat x}) / \sqrt{v +
    \epsilon}$, $dw = \sum dy\,\hat x$ and $db = \sum dy$, with $d\hat x = w\,dy$.
    """
    rng = np.random.default_rng(batch.seed)
    back = backward(flow, random_batch(flow, rng), rng)
    hat, closed, size = back.formula
    rows = {
        "the gradient of the input is not the derivative of normalization": channel_gap(
            back.dx, closed, size
        ),
        **off_parameters(back.pulled, back.dy, hat),
    }
    return batch_residual(
        np.stack(list(rows.values())),
        max(rows, key=lambda note: worst(rows[note])),
        largest_dx=largest_per_channel(back.dx),
        expected_largest_dx=largest_per_channel(closed),
    )


@batch_norm_law(
    "batch-norm/gradient",
    key="normalisation/measured-gradient",
    applies=normalizes & is_not_constant,
    effort=4,
    source=f"{IOFFE}, algorithm 1: the gradient flows through the mean and the variance of the batch",
)
def measured_gradient(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode the gradient of the input is that of the map of the whole batch:
    $dx = a\,(dy - \overline{dy} - (x - \mu) \sum dy\,(x - \mu) / (n (v + \epsilon)))$ with the
    slope a of the output.
    """
    rng, scale = np.random.default_rng(batch.seed), scale_of(flow)
    x = random_batch(flow, rng)
    dy, pulled = random_pullback(flow, x, rng, Train())
    slope, dx = fit_channel_line(x, np.asarray(pulled.value)).slope, input_gradient(pulled, x)
    _, expected, size = vjp(x, dy, slope, scale.eps, scale.freedom)
    return batch_residual(
        channel_gap(dx, expected, size),
        "the gradient of the input is not that of normalization by the batch",
        largest_dx=largest_per_channel(dx),
        expected_largest_dx=largest_per_channel(expected),
    )


def reach(x: Array, dy: Array, pulled: Pulled) -> Array:
    """The size of the terms that cancel in the gradient of a constant, ``(channels,)``: the spread
    of the output over that of the input.
    """
    var = channel_moments(np.asarray(pulled.value, dtype=np.float64))[1]
    return np.asarray(np.sqrt(var / channel_moments(x)[1]) * summed(np.abs(dy)))


@batch_norm_law(
    "batch-norm/gradient[bias-before]",
    key="normalisation/bias-before-is-idle",
    applies=normalizes,
    effort=2,
    scales=NEARBY,
    source="Ioffe and Szegedy 2015, section 2: without the gradient of the mean, a bias grows while the loss stays",
)
def bias_before_is_idle(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode, gradient descent on a bias added before the layer does not move the bias."""
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy, spread = random_cotangent(x, rng), np.sqrt(channel_moments(x)[1])
    bias, moves = np.zeros((2, number_of_channels(flow)))
    for _ in range(3):
        pulled = flow.play([Train(), Pullback(x + broadcast_channels(bias, x), dy)])[-1]
        gradient, size = summed(input_gradient(pulled, x)), reach(x, dy, pulled)
        # A step that moves the bias by a tenth of the spread if its gradient is as large as its
        # terms.
        step = RATE * spread * np.where(size > 0, ratio(gradient, size), 0.0)
        bias, moves = bias - step, moves + np.abs(step)
    return batch_residual(
        ratio(moves, spread), "a bias before the layer is driven away by its gradient", bias=bias
    )


@batch_norm_law(
    "batch-norm/gradient[eval]",
    key="normalisation/eval-still-trains",
    applies=understood_and_tracks,
    source="layers are put into eval mode inside a model in training to freeze their statistics, not their parameters",
)
def eval_still_trains(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In eval mode the statistics are fixed while gradients flow: $dx = w\,dy / \sqrt{v +
    \epsilon}$, $dw = \sum dy\,\hat x$ and $db = \sum dy$ with the running statistics.
    """
    rng, known = np.random.default_rng(batch.seed), Parameters.of(flow)
    x = random_batch(flow, rng)
    played, error = attempt(random_pullback, flow, x, rng, Eval())
    if error:
        infinite = np.full(number_of_channels(flow), np.inf)
        return batch_residual(infinite, f"no gradient flows in eval mode ({error})")
    dy, pulled = played
    slope = known.scale / np.sqrt(known.running.var + known.epsilon)
    rows = [
        channel_gap(
            input_gradient(pulled, x),
            broadcast_channels(slope, x) * dy,
            np.abs(slope) * largest_per_channel(dy),
        ),
        *off_parameters(pulled, dy, known.hat(x, *known.running)).values(),
    ]
    note = "gradients in eval mode are not those of a fixed affine map"
    _, before, _, after = flow.play([Eval(), State(), Pullback(x, dy), State()])
    if written := changed(before, after):
        rows.append(np.full(number_of_channels(flow), np.inf))
        note = f"a call in eval mode changed {listed_names(written)}"
    return batch_residual(np.stack(rows), note)


@batch_norm_law(
    "batch-norm/gradient[running-average]",
    key="normalisation/running-average-gradient",
    applies=normalizes_by_averages & tracked_layer,
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), appendix E",
)
def running_average_gradient(flow: BatchNormal, batch: Batch) -> Residual:
    """If train mode normalizes by running averages, the gradient passes through the statistics of
    the batch with the fraction with which they enter, and not into older averages.
    """
    rng = np.random.default_rng(batch.seed)
    x = random_batch(flow, rng)
    dy = random_cotangent(x, rng)
    before, _, pulled, after = flow.play([Roles(), Train(), Pullback(x, dy), Roles()])
    old, known = Parameters.of(flow, before).running, Parameters.of(flow, after)
    new, mean = known.running, channel_moments(x)[0]
    fraction = update_fraction(mean, old.mean, new.mean)
    s, centered = np.sqrt(new.var + known.epsilon), x - broadcast_channels(mean, x)
    dhat, dx, values = (
        broadcast_channels(known.scale, x) * dy,
        input_gradient(pulled, x),
        x[:, 0].size,
    )
    by_mean = -summed(dhat) / s
    by_var = -0.5 * summed(dhat * (x - broadcast_channels(new.mean, x))) / s**3
    size = (
        largest_per_channel(dhat) / s
        + np.abs(by_mean)
        + np.abs(by_var) * largest_per_channel(centered)
    )
    through = [
        broadcast_channels(by_mean / values, x)
        + broadcast_channels(2 * by_var / (values - freedom), x) * centered
        for freedom in (1, 0)
    ]
    # Unless it is declared to follow the appendix, averages may be constants.
    through += [np.zeros_like(x)] if flow.normalizer.evidence else []
    gaps = [
        channel_gap(dx, dhat / broadcast_channels(s, x) + fraction * part, size) for part in through
    ]
    return batch_residual(
        min(gaps, key=worst),
        "the gradient does not pass through the running averages as the batch entered them",
    )


# The weights of a linear map before the normalizer, x = u W, whose scale it removes: number of
# input features and of samples.
INPUTS, ROWS = 4, 8


class Linear(NamedTuple):
    """A linear map before the layer: x = u W, over samples and positions."""

    u: Array
    matrix: Array
    x: Array

    def gradient(self, dx: Array) -> Array:
        """The gradient of the loss with respect to W, ``(inputs, channels)``."""
        return np.asarray((self.u.T.astype(np.longdouble) @ per_channel(dx).T), dtype=np.float64)

    def terms(self, back: Backward) -> Array:
        """The size of the summands of the gradient along each column of W, ``(channels,)``."""
        sizes = np.abs(self.u).max() * np.abs(self.matrix).sum(0)
        return np.asarray(sizes * back.formula.size * len(self.u))


def _random_linear(flow: BatchNormal, rng: np.random.Generator) -> Linear:
    count, positions, rows = number_of_channels(flow), flow.event_shape[1:], undivided(flow, ROWS)
    matrix = rng.standard_normal((INPUTS, count)) * 10.0 ** rng.uniform(-2.5, 1, count)
    u = rng.standard_normal((rows * int(np.prod(positions)), INPUTS))
    return Linear(u, matrix, np.moveaxis((u @ matrix).reshape(rows, *positions, count), -1, 1))


@batch_norm_law(
    "batch-norm/gradient[weight-orthogonality]",
    key="normalisation/weight-before-orthogonality",
    applies=understood,
    source="Ioffe and Szegedy 2015, section 3.3: the scale of a weight before the layer has no effect, up to eps",
)
def weight_before_orthogonality(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$ the gradient of a column of $W$ is orthogonal to it, up to $\epsilon$:
    $\langle W_k, dW_k \rangle = \frac{\epsilon}{v_k + \epsilon}\,w_k\,dw_k$.
    """
    rng = np.random.default_rng(batch.seed)
    linear = _random_linear(flow, rng)
    back = backward(flow, linear.x, rng)
    got = (linear.matrix * linear.gradient(back.dx)).sum(0)
    expected = back.eps / back.inside * back.along()
    note = "the gradient of a weight has a part along it"
    off = ratio(got - expected, linear.terms(back))
    return batch_residual(off, note, got=got, expected=expected)


@batch_norm_law(
    "batch-norm/gradient[weight-scale]",
    key="normalisation/weight-before-scale",
    applies=normalizes & takes_eps,
    source="Ioffe and Szegedy 2015, section 3.3: larger weights lead to smaller gradients, and the gradient of u is unchanged",
)
def weight_before_scale(flow: BatchNormal, batch: Batch) -> Residual:
    r"""For $x = uW$, with $aW$ for $W$ and $a^2\epsilon$ for $\epsilon$, the gradient of the
    weights is multiplied by $1/a$ and that of $u$ is unchanged.
    """
    rng = np.random.default_rng(batch.seed)
    u, matrix, x = linear = _random_linear(flow, rng)
    factor, eps = float(rng.choice((0.125, 0.5, 4.0, 16.0))), float(rng.choice((1e-5, 0.1)))
    dy, pulled = random_pullback(flow, x, rng, Assign("eps", eps), Train())
    scaled = [Assign("eps", factor**2 * eps), Train(), Pullback(factor * x, dy)]
    dx, dx_scaled = (input_gradient(one, x) for one in (pulled, flow.play(scaled)[-1]))
    gap = np.abs(factor * linear.gradient(dx_scaled) - linear.gradient(dx)).max(0)
    columns = np.abs(matrix).max(0)
    rows = [
        ratio(gap, np.abs(u).max() * summed(np.abs(dx))),
        ratio(
            columns * largest_per_channel(factor * dx_scaled - dx),
            columns * largest_per_channel(dx),
        ),
    ]
    note = f"scaling the weights by {factor:g} does not scale their gradient by {1 / factor:g}"
    return batch_residual(np.stack(rows), note)
