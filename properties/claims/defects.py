"""The layers of the reference with one small defect each, as they are found in real code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from claims.cases import COMPONENTS, Component, Linear
from flowref import reference as ref

Bug = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Root = Callable[[Tensor, float], Tensor]


class Buggy(ref.Bijection):
    """A bijection with a bug after each call: a function of what the call returned."""

    def __init__(self, layer: ref.Bijection, forward: Bug, inverse: Bug) -> None:
        super().__init__()
        self.layer, self.bugs = layer, (forward, inverse)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return self.bugs[0](*self.layer(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return self.bugs[1](*self.layer.inverse(z))


def right(value: Tensor, ladj: Tensor) -> tuple[Tensor, Tensor]:
    """No bug."""
    return value, ladj


def bug(name: str, forward: Bug = right, inverse: Bug = right) -> Component:
    """A component with a bug after forward or inverse."""
    sound = COMPONENTS[name]
    return sound._replace(
        build=lambda draw, event: Buggy(sound.build(draw, event), forward, inverse)
    )


def inverse_off(name: str, size: float) -> Component:
    """The inverse is wrong by this much, relatively."""
    return bug(name, inverse=lambda x, ladj: (x * (1 + size), ladj))


def log_det_off(name: str, size: float) -> Component:
    """The log-det of forward is wrong by this much."""
    return bug(name, lambda z, ladj: (z, ladj + size))


def one_sign(name: str) -> Component:
    """The inverse returns the log-det of forward."""
    return bug(name, inverse=lambda x, ladj: (x, -ladj))


def one_position(name: str) -> Component:
    """The log-det of one position stands for all."""
    return bug(name, lambda z, ladj: (z, ladj / z[0, 0].numel()))


def one_term_missing() -> Component:
    """An exponential whose log-det leaves out the first entry."""
    return bug("exponential", lambda z, ladj: (z, ladj - z.flatten(1)[:, 0].log()))


class Unguarded(ref.Dequantize):
    """Adds noise to levels without a look at the rounding of the sum."""

    def forward(self, k: Tensor, noise: Tensor | None = None, *_: Any) -> tuple[Tensor, Tensor]:
        """Levels to reals, `(x, ladj)`."""
        assert noise is not None
        return k + noise, super().forward(k, noise)[1]


def divided_by(root: Root) -> Callable[[Tensor, Tensor, float], Tensor]:
    r"""$w (x - \mu) / r(v, \epsilon)$, right for $r(v, \epsilon) = \sqrt{v + \epsilon}$."""
    return lambda x, w, eps: w * (x - x.mean(0)) / root(x.var(0, correction=0), eps)


eps_inside = divided_by(lambda var, eps: (var + eps).sqrt())
eps_outside = divided_by(lambda var, eps: var.sqrt() + eps)
eps_relative = divided_by(lambda var, eps: (var * (1 + eps)).sqrt())
eps_fixed = divided_by(lambda var, eps: (var + 1e-5).sqrt())


def sign_lost(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """Magnitudes alone."""
    return eps_inside(x, w, eps).abs()


def gradient_through(mean: Callable[[Tensor], Tensor]) -> Callable[[Linear], Tensor]:
    """The gradient of b by autograd, where this is taken for the mean of a batch."""

    def gradient(layer: Linear) -> Tensor:
        b = layer.b.clone().requires_grad_()
        x = linear(layer.u, layer.W, b)
        y = (x - mean(x)) / (x.var(0, correction=0) + layer.eps).sqrt()
        return torch.autograd.grad(layer.w * y, b, layer.dy)[0]

    return gradient


through_mean = gradient_through(lambda x: x.mean(0))
through_constant = gradient_through(lambda x: x.mean(0).detach())


def mean_without_eps(dy: Tensor, x: Tensor, w: Tensor, eps: float) -> tuple[Tensor]:
    """The gradient of x where that of the mean is divided by the deviation alone."""
    var = x.var(0, correction=0)
    return (
        ref.batch_norm_backward(dy, x, w, eps)[0]
        + w * dy.mean(0) * ((var + eps).rsqrt() - var.rsqrt()),
    )


class Biased(ref.BatchNorm):
    """Stores the variance of a batch without Bessel's correction."""

    def _track(self, mean: Tensor, var: Tensor, n: int) -> None:
        super()._track(mean, var * (n - 1) / n, n)


class Reversed(ref.BatchNorm):
    """Takes momentum for the share that the averages keep."""

    def _track(self, mean: Tensor, var: Tensor, n: int) -> None:
        momentum = self.momentum
        self.momentum = None if momentum is None else 1 - momentum
        super()._track(mean, var, n)
        self.momentum = momentum


class Late(ref.BatchNorm):
    """Gives each batch the share of the next one in the plain average."""

    def _track(self, mean: Tensor, var: Tensor, n: int) -> None:
        assert self.num_batches_tracked is not None
        momentum, batches = self.momentum, float(self.num_batches_tracked)
        self.momentum = 1 / (batches + 2) if momentum is None else momentum
        super()._track(mean, var, n)
        self.momentum = momentum


class Eager(ref.BatchNorm):
    """Moves the averages in evaluation as well."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x in the present mode, once it has entered the averages."""
        if not self.training:
            self.train()(x)
            self.eval()
        return super().forward(x)


class Shifted(ref.BatchNorm):
    """Normalizes with an eps that is larger by a millionth."""

    def __init__(self, num_features: int, eps: float = 1e-5, **options: Any) -> None:
        super().__init__(num_features, eps * (1 + 1e-6), **options)
