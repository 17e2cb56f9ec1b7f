r"""What rounding alone may do, which is all that the page of claims allows.

Bijections are judged as in an audit (`flowref.checking.tolerance`): what a statement leaves over is
measured again while every operation is randomly rounded, and may be as large as that makes it.

Batch normalization has closed bounds, of first order in the unit roundoff $u$: a sum of $n$ terms
is off by $u (1 + \log_2 n)$ of their magnitudes, any other operation by $u$ of its result, and
`CONSTANT` times what follows is allowed. On 6 million random channels torch stays within 5.5 of
these 16, and in 120,000 draws of this page nothing went beyond 1.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from flowref.backends.torch.noise import RandomRounding
from flowref.checking.judgement import HELD
from flowref.checking.measurement import DOUBLE, Measurement
from flowref.checking.tolerance import CONFIRM_REPLICAS, judge
from flowref.model import Batch, Condition, Facts, Law, Residual, Subject

CONSTANT, UNIT = 16.0, DOUBLE.unit


def explained(gap: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> None:
    """Assert that rounding explains what ``gap(x)`` leaves over: a residual for each point, and the
    size to which rounding is relative there, `(batch,)`. Undecided points fail as well.
    """

    def residual(_: Subject, batch: Batch) -> Residual:
        with torch.no_grad():
            value, scale = gap(torch.from_numpy(batch.x))
        return Residual(value.numpy(), scale.numpy())

    law = Law("claims", residual, "", frozenset())
    subject = Subject(name="claims", facts=Facts(()), noise=noise)
    batch = Batch(x.numpy(), None, 0)
    measured = Measurement(law, subject, batch, residual(subject, batch), DOUBLE, 0, Condition())
    judgement = judge(measured, CONFIRM_REPLICAS)
    assert (judgement.outcome == HELD).all(), (
        f"{judgement.outcome}: got {measured.size}, allowed {judgement.allowed}"
    )


def noise(seed: int, magnitude: float) -> RandomRounding:
    """Random rounding of every operation."""
    return RandomRounding(magnitude, seed)


def agree(got: Tensor, expected: Tensor, rounding: Tensor, apart: Tensor | float = 0.0) -> None:
    """Assert that two tensors differ by what is stated and by rounding at most."""
    near = (got - expected).abs() <= apart + CONSTANT * rounding
    assert near.all(), f"got {got}, expected {expected}"


class Moments(NamedTuple):
    """Mean and biased variance per channel, and how far off they come out; all `(channels,)`."""

    mean: Tensor
    var: Tensor
    mean_error: Tensor
    var_error: Tensor

    @classmethod
    def initial(cls) -> Moments:
        """Running averages before the first batch."""
        return cls(*torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64)[:, None])

    @classmethod
    def of(cls, x: Tensor, error: Tensor) -> Moments:
        """Those of a batch `(n, channels)` whose entries are off by as much as ``error``."""
        mean, unit = x.mean(0), sum_unit(len(x))
        d, mean_error = x - mean, unit * x.abs().mean(0)
        var = d.square().mean(0)
        var_error = 2 * (d.abs() * (error + mean_error)).mean(0) + unit * var + mean_error.square()
        return cls(mean, var, mean_error, var_error)

    def normalized(self, x: Tensor, error: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        r"""$y = (x - \mu) / \sqrt{v + \epsilon}$ and how far off it is, `(n, channels)`."""
        variance = self.var + eps
        y = (x - self.mean) / variance.sqrt()
        relative = self.var_error / (2 * variance) + 4 * UNIT
        return y, (self.mean_error + error) / variance.sqrt() + y.abs() * relative

    def updated(self, batch: Moments, n: int, rate: float) -> Moments:
        """Running averages after a batch of n rows entered at this rate, its variance unbiased."""
        unbiased = n / (n - 1)
        pairs = ((self.mean, batch.mean), (self.var, batch.var * unbiased))
        mean, var = ((1 - rate) * old + rate * new for old, new in pairs)
        rounded = [UNIT * (old.abs() + new.abs()) for old, new in pairs]
        mean_error = (1 - rate) * self.mean_error + rate * batch.mean_error + rounded[0]
        var_error = (1 - rate) * self.var_error + rate * batch.var_error * unbiased + rounded[1]
        return Moments(mean, var, mean_error, var_error)


def bias_gradient_error(x: Tensor, w: Tensor, eps: float) -> Tensor:
    r"""How far off the sum over a batch of the gradient of a loss for x is.

    That gradient is $(w - \bar w - y\,\overline{yw}) / \sqrt{v + \epsilon}$, with w that for the
    normalized y; a bar is a mean.
    Shapes: x and w `(n, channels)`, result `(channels,)`.
    """
    moments, unit = Moments.of(x, UNIT * x.abs()), sum_unit(len(x))
    y, y_error = moments.normalized(x, UNIT * x.abs(), eps)
    yw, variance = y * w, moments.var + eps
    yw_error = (y_error * w.abs()).mean(0) + unit * yw.abs().mean(0)
    terms = w.abs() + w.abs().mean(0) + y.abs() * yw.abs().mean(0)
    error = (unit + 4 * UNIT + moments.var_error / (2 * variance)) * terms
    error += y_error * yw.mean(0).abs() + y.abs() * yw_error
    return (error / variance.sqrt()).sum(0)


def sum_unit(n: int) -> float:
    """How far off a sum of n terms is, relative to their magnitudes."""
    return UNIT * (1 + math.log2(n))
