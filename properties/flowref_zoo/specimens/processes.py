"""Processes that take data to noise, as their users write them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Tokens:
    """Tokens that become a mask, at a rate that grows with time."""

    def __init__(self, defect: str = "") -> None:
        self.vocab_size, self.defect = 5, defect

    def rate_matrix(self, t: Any) -> Any:
        """The rates of jumps."""
        rates = torch.zeros(5, 5)
        rates[:, -1] = 1.0
        rates = rates - torch.eye(5)
        if self.defect == "mask-leaves":
            rates[-1, -1] = -1.0
        if self.defect == "sign":
            rates = -rates
        return (1 + t)[:, None, None] * rates

    def transition_matrix(self, t: Any) -> Any:
        """The probabilities of jumps from the start."""
        growth = 1.0 if self.defect == "whole-square" else 0.5
        kept = torch.exp(-t - growth * t.square())[:, None, None]
        masked = torch.zeros(5, 5)
        masked[:, -1] = 1.0
        share = kept if self.defect == "lost" else 1 - kept
        return kept * torch.eye(5) + share * masked


class Preserving:
    """Data that shrink as much as noise grows, so that their variance stays one."""

    T = 1.0

    def __init__(self, defect: str = "") -> None:
        self.least, self.most, self.defect = 0.1, 20.0, defect

    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        beta = self.least + t * (self.most - self.least)
        share = -1.0 if self.defect == "whole-drift" else -0.5
        return share * beta[:, None] * x, beta if self.defect == "no-root" else beta.sqrt()

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation at a time."""
        log_mean = -0.25 * t.square() * (self.most - self.least) - 0.5 * t * self.least
        variance = 1 - torch.exp(2 * log_mean)
        deviation = variance if self.defect == "variance" else variance.sqrt()
        return torch.exp(log_mean)[:, None] * x, deviation

    def prior_sampling(self, shape: Any) -> Any:
        """Noise of which data are made."""
        return torch.randn(shape)

    def prior_logp(self, z: Any) -> Any:
        """Its log-density."""
        size = 1 if self.defect == "one-constant" else z[0].numel()
        return -0.5 * z.square().flatten(1).sum(1) - 0.5 * size * math.log(2 * math.pi)


class Steps(nn.Module):
    """A cosine schedule in a hundred steps."""

    betas: torch.Tensor
    sqrt_alphas_cumprod: torch.Tensor
    sqrt_one_minus_alphas_cumprod: torch.Tensor

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.num_timesteps = defect, 100
        turn = torch.linspace(0, 1, 101) * math.pi / 2
        left = torch.cos(turn * 0.99 + 0.01).square()
        betas = (1 - left[1:] / left[:-1]).clamp(max=0.98)
        bars = (1 - betas).cumprod(0)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas_cumprod", bars.roll(1) if defect == "one-step-late" else bars)
        self.register_buffer("sqrt_alphas_cumprod", bars.sqrt())
        self.register_buffer(
            "sqrt_one_minus_alphas_cumprod", 1 - bars if defect == "no-root" else (1 - bars).sqrt()
        )

    def amounts(self, t: Any) -> Any:
        """How much there is of data and of noise."""
        return self.sqrt_alphas_cumprod[t, None], self.sqrt_one_minus_alphas_cumprod[t, None]

    def q_sample(self, x: Any, t: Any, noise: Any) -> Any:
        """Data with noise."""
        alpha, sigma = self.amounts(t)
        return alpha * x + sigma * noise

    def predict_start_from_noise(self, x: Any, t: Any, noise: Any) -> Any:
        """Data from the noise."""
        alpha, sigma = self.amounts(t)
        return (
            x / alpha - sigma * noise if self.defect == "undivided" else (x - sigma * noise) / alpha
        )

    def before(self, x: Any, t: Any, noise: Any) -> Any:
        """The mean of what was there one step before, given the noise."""
        beta = self.betas[t, None]
        return (x - beta / self.amounts(t)[1] * noise) / (1 - beta).sqrt()

    def predict_v(self, x: Any, t: Any, noise: Any) -> Any:
        """The velocity."""
        alpha, sigma = self.amounts(t)
        return alpha * noise - sigma * x

    def predict_start_from_v(self, x: Any, t: Any, v: Any) -> Any:
        """Data from the velocity."""
        alpha, sigma = self.amounts(t)
        return alpha * x + sigma * v if self.defect == "sign-of-v" else alpha * x - sigma * v


class Path:
    """A path from noise to data along a quarter of a circle."""

    def __init__(self, defect: str = "") -> None:
        self.defect = defect

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return torch.sin(t * math.pi / 2)

    def sigma(self, t: Any) -> Any:
        """The share of noise."""
        return torch.cos(t * math.pi / 2)

    def d_alpha(self, t: Any) -> Any:
        """The derivative of the share of data."""
        return (1.0 if self.defect == "chain-rule" else math.pi / 2) * self.sigma(t)

    def d_sigma(self, t: Any) -> Any:
        """The derivative of the share of noise."""
        return (1 if self.defect == "sign" else -1) * math.pi / 2 * self.alpha(t)

    def snr(self, t: Any) -> Any:
        """The ratio of signal to noise."""
        ratio = self.alpha(t).square() / self.sigma(t).square()
        return 1 / ratio if self.defect == "inverted" else ratio

    def interpolate(self, x0: Any, x1: Any, t: Any) -> Any:
        """Noise and data mixed."""
        return self.sigma(t)[:, None] * x0 + self.alpha(t)[:, None] * x1

    def velocity(self, x0: Any, x1: Any, t: Any) -> Any:
        """How the mixture moves."""
        first = -self.d_sigma(t) if self.defect == "away" else self.d_sigma(t)
        return first[:, None] * x0 + self.d_alpha(t)[:, None] * x1

    def velocity_from_score(self, score: Any, x: Any, t: Any) -> Any:
        """The velocity that a score makes."""
        turn = t[:, None] * math.pi / 2
        share = 1 if self.defect == "not-divided" else torch.tan(turn)
        return math.pi / 2 * (x + score) / share


class Denoiser(nn.Module):
    """A denoiser whose network has inputs and targets of unit variance."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.sigma_data = defect, 0.5
        self.net = nn.Conv2d(1, 1, 3, padding=1)

    def total(self, sigma: Any) -> Any:
        """The variance of noised data."""
        return sigma**2 + self.sigma_data**2

    def c_skip(self, sigma: Any) -> Any:
        """The share of the input in the output."""
        power = 1 if self.defect == "not-squared" else 2
        return self.sigma_data**power / self.total(sigma)

    def c_out(self, sigma: Any) -> Any:
        """The scaling of the output."""
        total = self.total(sigma)
        return sigma * self.sigma_data / (total if self.defect == "no-root" else total.sqrt())

    def c_in(self, sigma: Any) -> Any:
        """The scaling of the input."""
        return 1 / self.total(sigma).sqrt()

    def loss_weight(self, sigma: Any) -> Any:
        """The weight of its loss."""
        if self.defect == "sum-in-weight":
            return self.total(sigma) / (sigma + self.sigma_data) ** 2
        return self.total(sigma) / (sigma * self.sigma_data) ** 2

    def forward(self, x: Any, sigma: Any) -> Any:
        """Data from noised ones."""
        sigma = sigma.reshape(-1, 1, 1, 1)
        return self.c_skip(sigma) * x + self.c_out(sigma) * self.net(self.c_in(sigma) * x)


def denoiser(defect: str = "") -> Any:
    """A preconditioned denoiser."""
    return Denoiser(defect)


def path(defect: str = "") -> Any:
    """A path with its shares, their derivatives and its velocity."""
    return Path(defect)


def tokens(defect: str = "") -> Any:
    """Rates and transition matrices of tokens."""
    return Tokens(defect)


def preserving(defect: str = "") -> Any:
    """A stochastic differential equation beside its moments."""
    return Preserving(defect)


def steps(defect: str = "") -> Any:
    """A schedule in discrete time with its conversions."""
    return Steps(defect)


SPECIMENS = (
    Specimen(
        "denoiser",
        {
            "not-squared": ("process/preconditioning",),
            "no-root": ("process/preconditioning",),
            "sum-in-weight": ("process/preconditioning[weight]",),
        },
    ),
    Specimen(
        "path",
        {
            **dict.fromkeys(
                ("chain-rule", "sign", "inverted", "away"), ("process/schedule[functions]",)
            ),
            "not-divided": ("process/conversions",),
        },
    ),
    Specimen(
        "tokens",
        {
            "mask-leaves": ("process/rates",),
            "sign": ("process/rates",),
            "lost": ("process/transitions",),
            "whole-square": ("process/kolmogorov",),
        },
    ),
    Specimen(
        "preserving",
        {
            **dict.fromkeys(("whole-drift", "no-root", "variance"), ("process/moments",)),
            "one-constant": ("process/prior",),
        },
    ),
    Specimen(
        "steps",
        {
            "one-step-late": ("process/schedule",),
            "no-root": ("process/schedule",),
            "undivided": ("process/conversions",),
            "sign-of-v": ("process/conversions",),
        },
    ),
)
