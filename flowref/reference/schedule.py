r"""Noise schedules: $x_t = \alpha(t)\,x_0 + \sigma(t)\,\epsilon$ with $\epsilon \sim N(0, I)$, data
at time 0 and noise at time 1; and conversions between the five quantities that a network may
predict.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Prediction = Literal["x0", "epsilon", "v", "score", "velocity"]


class Amounts(NamedTuple):
    r"""$\alpha$, $\sigma$ and their derivatives in time, each of the shape of the times."""

    alpha: Tensor
    sigma: Tensor
    alpha_rate: Tensor
    sigma_rate: Tensor

    @property
    def drift(self) -> Tensor:
        r"""f of the linear equation $dx = f(t)\,x\,dt + g(t)\,dW$ with these marginals, $\alpha' / \alpha$."""
        return self.alpha_rate / self.alpha

    @property
    def diffusion(self) -> Tensor:
        r"""Its $g^2 = 2 \sigma \sigma' - 2 f \sigma^2$."""
        return 2 * self.sigma * (self.sigma_rate - self.drift * self.sigma)


class Schedule(ABC):
    """Amounts of data and noise at a time; ``start`` and ``end``: the interval on which the
    derivatives are finite.
    """

    start, end = 0.0, 1.0

    @abstractmethod
    def at(self, t: Tensor) -> Amounts:
        """The amounts at times of any shape."""

    def noised(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        r"""$\alpha x + \sigma \epsilon$: x and noise `(N, D)`, t scalar or `(N, 1)`."""
        alpha, sigma, *_ = self.at(t)
        return alpha * x + sigma * noise


@dataclass(frozen=True)
class VariancePreserving(Schedule):
    r"""$\alpha = e^{-B(t) / 2}$ and $\sigma^2 = 1 - \alpha^2$ with $B(t) = \int_0^t \beta$ and $\beta$ linear from
    ``least`` to ``most``: $f = -\beta / 2$, $g^2 = \beta$.

    $\sigma'$ is infinite at 0: the density is that of data with the noise of time ``start``.
    Source: Song et al. 2021, Score-based generative modeling through stochastic differential equations
    (arXiv:2011.13456), section 3.4 and appendix C.
    """

    least: float = 0.1
    most: float = 20.0
    start: float = 1e-3

    def at(self, t: Tensor) -> Amounts:
        """The amounts at times of any shape."""
        beta = self.least + (self.most - self.least) * t
        whole = t * (self.least + beta) / 2
        alpha, sigma = torch.exp(-whole / 2), (-torch.expm1(-whole)).sqrt()
        return Amounts(alpha, sigma, -beta * alpha / 2, beta * alpha.square() / (2 * sigma))


@dataclass(frozen=True)
class VarianceExploding(Schedule):
    r"""$\alpha = 1$ and $\sigma$ geometric from ``least`` to ``most``: $f = 0$, $g^2 = 2 \sigma \sigma'$.

    Source: Song et al. 2021 (arXiv:2011.13456), section 3.4; noise of deviation ``least`` stays in the data.
    """

    least: float = 0.01
    most: float = 10.0

    def at(self, t: Tensor) -> Amounts:
        """The amounts at times of any shape."""
        growth = math.log(self.most / self.least)
        sigma = self.least * torch.exp(growth * t)
        return Amounts(torch.ones_like(t), sigma, torch.zeros_like(t), growth * sigma)


@dataclass(frozen=True)
class StraightLine(Schedule):
    r"""$\alpha = 1 - t$ and $\sigma = t$: paths of constant velocity $\epsilon - x_0$, as in
    optimal transport from each point to its noise.

    Source: Lipman et al. 2023, Flow matching for generative modeling (arXiv:2210.02747), section
    4.1, with time reversed; Liu et al. 2023, Flow straight and fast (arXiv:2209.03003).
    """

    def at(self, t: Tensor) -> Amounts:
        """The amounts at times of any shape."""
        one = torch.ones_like(t)
        return Amounts(1 - t, t, -one, one)


@dataclass(frozen=True)
class Cosine(Schedule):
    r"""$\alpha = \cos(\pi t / 2)$ and $\sigma = \sin(\pi t / 2)$: the velocity is $\pi / 2$ times $v$.

    Source: Nichol and Dhariwal 2021, Improved denoising diffusion probabilistic models (arXiv:2102.09672),
    section 3.2, without the offset; Salimans and Ho 2022 (arXiv:2202.00512), appendix D.
    """

    def at(self, t: Tensor) -> Amounts:
        """The amounts at times of any shape."""
        turn = math.pi / 2
        alpha, sigma = torch.cos(turn * t), torch.sin(turn * t)
        return Amounts(alpha, sigma, -turn * sigma, turn * alpha)


def shares(schedule: Schedule, prediction: Prediction, t: Tensor) -> tuple[Tensor, Tensor]:
    r"""p and q of the prediction $p\,x_0 + q\,\epsilon$: (1, 0) for $x_0$, (0, 1) for $\epsilon$,
    $(-\sigma, \alpha)$ for v, $(0, -1 / \sigma)$ for the score, $(\alpha', \sigma')$ for the velocity.

    The score of one point given its $x_0$; means over $x_0$ are the score and velocity of the marginal.
    Raises: `ValueError` for another prediction.
    Source: Salimans and Ho 2022, Progressive distillation (arXiv:2202.00512), section 4, on v.
    """
    one, zero = torch.ones_like(t), torch.zeros_like(t)
    alpha, sigma, alpha_rate, sigma_rate = schedule.at(t)
    if prediction == "x0":
        return one, zero
    if prediction == "epsilon":
        return zero, one
    if prediction == "v":
        return -sigma, alpha
    if prediction == "score":
        return zero, -1 / sigma
    if prediction == "velocity":
        return alpha_rate, sigma_rate
    raise ValueError(f"got {prediction!r}; expected x0, epsilon, v, score or velocity")


def converted(
    value: Tensor, x: Tensor, t: Tensor, schedule: Schedule, of: Prediction, to: Prediction
) -> Tensor:
    r"""One prediction from another at the point x.

    $x = \alpha x_0 + \sigma \epsilon$ and $y = p\,x_0 + q\,\epsilon$ are solved for $x_0$ and $\epsilon$, so that
    $p' x_0 + q' \epsilon = \bigl((p' q - q' p)\,x + (\alpha q' - \sigma p')\,y\bigr) / (\alpha q - \sigma p)$.
    The denominator is $-\sigma$ for $x_0$, $\alpha$ for $\epsilon$, $-\alpha / \sigma$ for the score, $\alpha^2 +
    \sigma^2$ for v and $\alpha \sigma' - \alpha' \sigma$ for the velocity: the last two are zero at no time.
    Shapes: value and x `(N, D)`, t without axes or `(N, 1)`.
    """
    if of == to:
        return value
    alpha, sigma, *_ = schedule.at(t)
    (p, q), (p2, q2) = shares(schedule, of, t), shares(schedule, to, t)
    return ((p2 * q - q2 * p) * x + (alpha * q2 - sigma * p2) * value) / (alpha * q - sigma * p)
