r"""Laws of the gradients of a batch normalizer, which pass through the mean and the variance of the
batch.

With $d\hat x = w\,dy$, $s = \sqrt{v + \epsilon}$ and sums over the n values of a channel,
$dx = (d\hat x - \overline{d\hat x} - \hat x \sum d\hat x\,\hat x / n) / s$; for a variance with n -
1 the last n is n - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.batch_norm.layer import normalizes, understood, understood_and_tracks
from flowref.laws.batch_norm.oracle import (
    apart,
    channels,
    drawn,
    epsilon,
    held,
    largest,
    measured_freedom,
    moments,
    normalizer_law,
    play,
    ratio,
    single,
    standardized,
    summed,
    told,
    wide,
)
from flowref.laws.common.outcomes import attempt, changed, listed
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import BatchNormal, Flow
from flowref.model.steps import Eval, Pullback, Roles, State, Train

IOFFE = "Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), section 3"
# The size of a step of gradient descent, relative to the spread of the input.
RATE = 0.1


class Pulled(NamedTuple):
    """A train-mode batch with its gradients, and the parts of the closed form; per channel
    ``(channels,)``.
    """

    x: Array
    dy: Array
    dx: Array
    weight_gradient: Array | None
    bias_gradient: Array | None
    weight: Array
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


def pulled(flow: Flow, x: Array, rng: np.random.Generator) -> Pulled:
    """Pull a random cotangent back through a train-mode batch."""
    dy = single(rng.standard_normal(x.shape))
    roles, _, out = play(flow, [Roles(), Train(), Pullback(x, dy)])
    known, count = held(roles), channels(flow)
    weight, eps, freedom = (
        known.scale(count),
        epsilon(flow, known),
        measured_freedom(flow, known),
    )
    mean, var = moments(x, freedom)
    dx = np.zeros_like(x) if out["x"] is None else np.asarray(out["x"], dtype=np.float64)
    if dx.shape != x.shape:
        raise Undecidable(f"the gradient of an input of shape {x.shape} has shape {dx.shape}")
    gradients = [
        None if out[role] is None else np.asarray(out[role]).reshape(-1)
        for role in ("weight", "bias")
    ]
    hat = standardized(x, mean, var, eps)
    return Pulled(
        x, dy, dx, gradients[0], gradients[1], weight, eps, freedom, var, hat, wide(weight, x) * dy
    )


@normalizer_law(
    "batch-norm/backward-closed-form",
    former="normalisation/backward-closed-form",
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
    found = pulled(flow, drawn(flow, rng), rng)
    closed = found.closed()
    rows = [apart(found.dx, closed, found.size())]
    notes = ["the gradient of the input is not the derivative of normalization"]
    size = summed(np.abs(found.dy)) * (1 + largest(found.hat))
    if found.weight_gradient is not None:
        rows.append(ratio(found.weight_gradient - summed(found.dy * found.hat), size))
        notes.append("the gradient of the weight is not the sum of dy times the normalized input")
    if found.bias_gradient is not None:
        rows.append(ratio(found.bias_gradient - summed(found.dy), size))
        notes.append("the gradient of the bias is not the sum of dy")
    worst = int(np.argmax([row.max() for row in rows]))
    return told(
        np.stack(rows),
        notes[worst],
        largest_dx=largest(found.dx),
        expected_largest_dx=largest(closed),
    )


@normalizer_law(
    "batch-norm/gradient-sums-to-zero",
    former="normalisation/gradient-sums-to-zero",
    applies=normalizes,
    effort=4,
    source="the output does not depend on a constant added to a channel",
)
def gradient_sums_to_zero(flow: BatchNormal, batch: Batch) -> Residual:
    """In train mode the gradients of the inputs of each channel sum to zero over samples and
    positions.
    """
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng)
    dy = single(rng.standard_normal(x.shape))
    _, out = play(flow, [Train(), Pullback(x, dy)])
    dx = np.zeros_like(x) if out["x"] is None else np.asarray(out["x"], dtype=np.float64)
    total = summed(dx)
    # The terms that cancel are as large as the slope of the map: the spread of the output over that
    # of the input.
    slope = np.sqrt(moments(np.asarray(out["value"], dtype=np.float64))[1] / moments(x)[1])
    size = summed(np.abs(dx)) + slope * summed(np.abs(dy))
    return told(ratio(total, size), "a constant added to a channel has a gradient", sum=total)


@normalizer_law(
    "batch-norm/gradient-along-output",
    former="normalisation/gradient-along-output",
    applies=understood,
    effort=4,
    source="the derivative of the variance takes out of the gradient what points along the output, up to eps",
)
def gradient_along_output(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In train mode $\sum dx\,\hat x = \epsilon\,(v + \epsilon)^{-3/2} \sum d\hat x\,\hat x$ in
    every channel.
    """
    rng = np.random.default_rng(batch.seed)
    found = pulled(flow, drawn(flow, rng), rng)
    got = summed(found.dx * found.hat)
    expected = found.eps * (found.var + found.eps) ** -1.5 * summed(found.dhat * found.hat)
    size = found.size() * summed(np.abs(found.hat))
    note = "the gradient has a part along the output, as if the variance were a constant"
    return told(ratio(got - expected, size), note, got=got, expected=expected)


@normalizer_law(
    "batch-norm/bias-before-is-idle",
    former="normalisation/bias-before-is-idle",
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
    x = drawn(flow, rng)
    dy = single(rng.standard_normal(x.shape))
    spread = np.sqrt(moments(x)[1])
    bias, moves = np.zeros(channels(flow)), np.zeros(channels(flow))
    for _ in range(3):
        _, out = play(flow, [Train(), Pullback(x + wide(bias, x), dy)])
        gradient = (
            np.zeros(len(bias))
            if out["x"] is None
            else summed(np.asarray(out["x"], dtype=np.float64))
        )
        slope = np.sqrt(moments(np.asarray(out["value"], dtype=np.float64))[1]) / spread
        # A step that moves the bias by a tenth of the spread where its gradient is as large as its
        # terms.
        reach = slope * summed(np.abs(dy))
        step = RATE * spread * np.where(reach > 0, gradient / np.where(reach > 0, reach, 1.0), 0.0)
        bias = bias - step
        moves = moves + np.abs(step)
    return told(
        ratio(moves, spread), "a bias before the layer is driven away by its gradient", bias=bias
    )


@normalizer_law(
    "batch-norm/eval-still-trains",
    former="normalisation/eval-still-trains",
    applies=understood_and_tracks,
    effort=4,
    source="layers are put into eval mode inside a model in training to freeze their statistics, not their parameters",
)
def eval_still_trains(flow: BatchNormal, batch: Batch) -> Residual:
    r"""In eval mode the statistics stay as they are while gradients flow:
    $dx = w\,dy / \sqrt{v + \epsilon}$, $dw = \sum dy\,\hat x$ and $db = \sum dy$ with the running
    statistics.
    """
    rng = np.random.default_rng(batch.seed)
    x = drawn(flow, rng)
    dy = single(rng.standard_normal(x.shape))
    steps = [Eval(), Roles(), State(), Pullback(x, dy), State()]
    played, error = attempt(play, flow, steps)
    if error:
        return told(np.full(channels(flow), np.inf), f"no gradient flows in eval mode ({error})")
    _, roles, before, out, after = played
    known, count = held(roles), channels(flow)
    assert known.running_mean is not None
    assert known.running_var is not None
    eps, weight = epsilon(flow, known), known.scale(count)
    hat = standardized(x, known.running_mean, known.running_var, eps)
    slope = np.abs(weight) / np.sqrt(known.running_var + eps)
    dx = np.zeros_like(x) if out["x"] is None else np.asarray(out["x"], dtype=np.float64)
    expected = wide(weight / np.sqrt(known.running_var + eps), x) * dy
    rows, note = (
        [apart(dx, expected, slope * largest(dy))],
        "gradients in eval mode are not those of a fixed affine map",
    )
    size = summed(np.abs(dy)) * (1 + largest(hat))
    for role, gradient in (("weight", summed(dy * hat)), ("bias", summed(dy))):
        if out[role] is not None:
            rows.append(ratio(np.asarray(out[role]).reshape(-1) - gradient, size))
    written = changed(before, after)
    if written:
        rows.append(np.full(count, np.inf))
        note = f"a call in eval mode changed {listed(written)}"
    return told(np.stack(rows), note)
