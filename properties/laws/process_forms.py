"""Noise processes as functions of time and of data, in the forms in which they are written; each with a bug."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

# The functions of the framework that is installed, under the names that torch and JAX share.
xp: Any = importlib.import_module("torch" if find_spec("torch") else "jax.numpy")

MOMENTS, SCHEDULE, FUNCTIONS = "process/moments", "process/schedule", "process/schedule[functions]"
CONVERSIONS, KOLMOGOROV = "process/conversions", "process/kolmogorov"
PRIOR, WEIGHT = "process/prior", "process/preconditioning[weight]"


def beside(number: Any, points: Any) -> Any:
    """A number for each point, with the axes of points."""
    return number.reshape(-1, *[1] * (points.ndim - 1))


def exponential(matrices: Any) -> Any:
    """The exponentials of small matrices, by their series."""
    term = 0 * matrices + xp.eye(matrices.shape[-1])
    total = term
    for order in range(1, 40):
        term = term @ matrices / order
        total = total + term
    return total


def drawn(shape: Any) -> Any:
    """Standard normal numbers."""
    return xp.asarray(np.random.default_rng(0).standard_normal(shape))


def normal_log_density(z: Any, spread: float) -> Any:
    """The log-density of independent normal numbers, of standardized ones ``(n, ...)``."""
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - math.log(spread)).reshape(len(z), -1).sum(1)


@dataclass
class Form:
    """An object that is right, or has its bug."""

    wrong: bool = False


class Separate(Form):
    """Drift, diffusion and the shares of data and noise, each a method."""

    def beta(self, t: Any) -> Any:
        """The rate of noise."""
        return 0.1 + 19.9 * t

    def int_beta(self, t: Any) -> Any:
        """Its integral."""
        return 0.1 * t + (19.9 if self.wrong else 9.95) * t**2

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return xp.exp(-0.05 * t - 4.975 * t**2)

    def sigma(self, t: Any) -> Any:
        """The deviation of noise."""
        return xp.sqrt(1 - xp.exp(-0.1 * t - 9.95 * t**2))

    def drift(self, x: Any, t: Any) -> Any:
        """The drift."""
        return -0.5 * beside(self.beta(t), x) * x * (2 if self.wrong else 1)

    def diffusion(self, t: Any) -> Any:
        """The diffusion."""
        return xp.sqrt(self.beta(t))


class Coefficients(Form):
    """Coefficients that are functions of time alone, until a horizon."""

    horizon = 2.0

    def integral(self, t: Any) -> Any:
        """The integral of the rate."""
        return 0.1 * t + 3 * t * t

    def mean_coeff(self, t: Any) -> Any:
        """The share of data."""
        return xp.exp(-self.integral(t) / 2)

    def std(self, t: Any) -> Any:
        """The deviation of noise."""
        return 1 - xp.exp(-self.integral(t))

    def drift_coeff(self, t: Any) -> Any:
        """The slope of the drift."""
        return -0.5 * (0.1 + 6 * t)

    def diffusion_coeff(self, t: Any) -> Any:
        """The diffusion."""
        left = 1 - xp.exp(-(1 if self.wrong else 2) * self.integral(t))
        return xp.sqrt((0.1 + 6 * t) * left)


class TimeFirst(Form):
    """Time before data, as solvers have it, and a variance beside the mean."""

    def drift(self, t: Any, y: Any) -> Any:
        """The drift towards a mean."""
        return -1.5 * (y - 0.3)

    def diffusion(self, t: Any, y: Any) -> Any:
        """The diffusion."""
        return 0.8 * xp.ones_like(y)

    def marginal(self, y: Any, t: Any) -> Any:
        """Mean and variance."""
        decay = beside(xp.exp(-1.5 * t), y)
        mean = 0.3 + (y - (0.0 if self.wrong else 0.3)) * decay
        var = 0.64 / 3 * (1 - decay**2)
        return mean, var


class NoiseFirst(Form):
    """Noise at time zero and data at time one."""

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return t

    def sigma(self, t: Any) -> Any:
        """The share of noise."""
        return 1 - t

    def drift(self, x: Any, t: Any) -> Any:
        """The drift."""
        return x / beside(t, x)

    def diffusion(self, t: Any) -> Any:
        """The diffusion of the way to noise."""
        return xp.sqrt(2 * (1 - t) + (1 if self.wrong else 2) * (1 - t) ** 2 / t)


class Volatility(Form):
    """A volatility called sigma beside the deviation of what it drives."""

    def sigma(self, t: Any) -> Any:
        """The volatility."""
        return 1 + t

    def std(self, t: Any) -> Any:
        """The deviation."""
        return xp.sqrt(((1 + t) ** 3 - 1) / (2 if self.wrong else 3))

    def drift(self, x: Any, t: Any) -> Any:
        """None."""
        return xp.zeros_like(x)

    def diffusion(self, t: Any) -> Any:
        """The diffusion."""
        return self.sigma(t)


class Arrays(Form):
    """Functions of numpy, with single letters for the equation."""

    t_max = 0.99

    def alpha_t(self, t: Any) -> Any:
        """The share of data."""
        return np.cos(np.pi * t / 2)

    def sigma_t(self, t: Any) -> Any:
        """The share of noise."""
        return np.sin(np.pi * t / 2)

    def f(self, t: Any) -> Any:
        """The slope of the drift."""
        return -np.pi / 2 * np.tan(np.pi * t / 2)

    def g(self, t: Any) -> Any:
        """The diffusion."""
        return np.sqrt((0.5 if self.wrong else 1) * np.pi * np.tan(np.pi * t / 2))


class Gamma(Form):
    """A signal-to-noise ratio beside its logarithm."""

    def gamma(self, t: Any) -> Any:
        """Minus its logarithm."""
        return -8 + 12 * t

    def snr(self, t: Any) -> Any:
        """The ratio."""
        return xp.exp(self.gamma(t) if self.wrong else -self.gamma(t))

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return 1 / xp.sqrt(1 + xp.exp(self.gamma(t)))

    def sigma(self, t: Any) -> Any:
        """The share of noise."""
        return 1 / xp.sqrt(1 + xp.exp(-self.gamma(t)))


class HalfLogarithm(Form):
    """Half of the logarithm of a signal-to-noise ratio, with the way back."""

    def marginal_log_mean_coeff(self, t: Any) -> Any:
        """The logarithm of the share of data."""
        return -5 * t**2 - 0.05 * t

    def marginal_std(self, t: Any) -> Any:
        """The share of noise."""
        return xp.sqrt(1 - xp.exp(2 * self.marginal_log_mean_coeff(t)))

    def marginal_lambda(self, t: Any) -> Any:
        """Half the logarithm."""
        return self.marginal_log_mean_coeff(t) - xp.log(self.marginal_std(t))

    def inverse_lambda(self, lamb: Any) -> Any:
        """The time."""
        whole = xp.log1p(xp.exp(-2 * lamb)) / 2
        root = xp.sqrt(0.05**2 + 20 * whole)
        return (root + 0.05 if self.wrong else root - 0.05) / 10


class NoiseLevels(Form):
    """Noise levels with a derivative and a way back, which are no map and inverse of points."""

    def sigma(self, t: Any) -> Any:
        """The level."""
        return (0.3 + 1.5 * t) ** 7

    def sigma_deriv(self, t: Any) -> Any:
        """Its derivative."""
        return 7 * (1 if self.wrong else 1.5) * (0.3 + 1.5 * t) ** 6

    def sigma_inv(self, sigma: Any) -> Any:
        """The time."""
        return (sigma ** (1 / 7) - 0.3) / 1.5


class Pairs(Form):
    """Shares that are returned with their derivatives, a mixture and its velocity."""

    def compute_alpha_t(self, t: Any) -> Any:
        """The share of data, with its derivative."""
        alpha_t = xp.sin(t * math.pi / 2)
        d_alpha_t = (1 if self.wrong else math.pi / 2) * xp.cos(t * math.pi / 2)
        return alpha_t, d_alpha_t

    def compute_sigma_t(self, t: Any) -> Any:
        """The share of noise, with its derivative."""
        sigma_t = xp.cos(t * math.pi / 2)
        return sigma_t, -math.pi / 2 * xp.sin(t * math.pi / 2)


@dataclass
class Shares:
    """What a scheduler returns."""

    alpha_t: Any
    sigma_t: Any
    d_alpha_t: Any
    d_sigma_t: Any


class Fields(Form):
    """A scheduler that is called, and returns named fields."""

    def __call__(self, t: Any) -> Shares:
        """Shares and derivatives."""
        slope = 2 * (t if self.wrong else 1 - t)
        return Shares(1 - (1 - t) ** 2, (1 - t) ** 2, slope, -2 * (1 - t))


class Interpolant(Form):
    """A mixture of two points, whose shares are functions with derivatives."""

    def alpha(self, t: Any) -> Any:
        """The share of the first."""
        return 1 - t

    def beta(self, t: Any) -> Any:
        """The share of the second."""
        return t

    def gamma(self, t: Any) -> Any:
        """The share of noise."""
        return xp.sqrt(2 * t * (1 - t))

    def gamma_dot(self, t: Any) -> Any:
        """Its derivative."""
        return (1 - (1 if self.wrong else 2) * t) / self.gamma(t)

    def sigma(self, t: Any) -> Any:
        """A constant that has nothing of these."""
        return 0.1 + 0 * t

    def interpolate(self, x0: Any, x1: Any, t: Any) -> Any:
        """The mixture."""
        return beside(self.alpha(t), x0) * x0 + beside(self.beta(t), x0) * x1

    def velocity(self, x0: Any, x1: Any, t: Any) -> Any:
        """Its derivative."""
        return x1 - x0


class Bridge(Form):
    """A path whose velocity depends on where it is."""

    def compute_mu_t(self, x0: Any, x1: Any, t: Any) -> Any:
        """The mean."""
        return beside(t, x0) * x1 + (1 - beside(t, x0)) * x0

    def compute_conditional_flow(self, x0: Any, x1: Any, t: Any, xt: Any) -> Any:
        """The velocity."""
        off = xt - self.compute_mu_t(x0, x1, t)
        t = beside(t, x0)
        return (1 - 2 * t) / (2 * t * (1 - t)) * off + (x1 + x0 if self.wrong else x1 - x0)


class Total(Form):
    """Total noise and its rate, which are returned together and are no map with its log-det."""

    def rate_noise(self, t: Any) -> Any:
        """The rate."""
        return (1 if self.wrong else 0.999) / (1 - 0.999 * t)

    def total_noise(self, t: Any) -> Any:
        """The integral."""
        return -xp.log1p(-0.999 * t)

    def forward(self, t: Any) -> Any:
        """Both."""
        return self.total_noise(t), self.rate_noise(t)


class Squared(Form):
    """A squared share of data called alpha, static methods, and the mixture that has its root."""

    @staticmethod
    def get_alpha(t: Any) -> Any:
        """The squared share."""
        return xp.cos(t * math.pi / 2) ** 2

    @staticmethod
    def get_sigma(t: Any) -> Any:
        """The share of noise."""
        return xp.sin(t * math.pi / 2)

    def diffuse(self, x: Any, t: Any, noise: Any) -> Any:
        """The mixture."""
        alpha = self.get_alpha(t) if self.wrong else xp.sqrt(self.get_alpha(t))
        return beside(alpha, x) * x + beside(self.get_sigma(t), x) * noise


class Steps(Form):
    """A schedule of numpy with the coefficients of a step back; data that are found are clipped."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__(wrong)
        self.num_steps = 40
        self.beta = np.linspace(1e-3, 0.1, 40).astype(np.float32)
        self.alpha = 1 - self.beta
        self.alpha_bar = np.cumprod(self.alpha)
        self.alpha_bar_prev = np.append(np.float32(1), self.alpha_bar[:-1])
        left = 1 - self.alpha_bar
        earlier = self.alpha_bar if wrong else self.alpha_bar_prev
        self.posterior_variance = self.beta * (1 - self.alpha_bar_prev) / left
        self.posterior_mean_coef1 = self.beta * np.sqrt(earlier) / left
        self.posterior_mean_coef2 = (1 - self.alpha_bar_prev) * np.sqrt(self.alpha) / left

    def bar(self, t: Any, x: Any) -> Any:
        """The share of all steps so far."""
        return beside(self.alpha_bar[t], x)

    def q_sample(self, x: Any, t: Any, noise: Any = None) -> Any:
        """The mixture."""
        noise = np.random.randn(*x.shape) if noise is None else noise
        return np.sqrt(self.bar(t, x)) * x + np.sqrt(1 - self.bar(t, x)) * noise

    def q_mean_variance(self, x: Any, t: Any) -> Any:
        """Mean and variance of noised data."""
        variance = 1 - self.bar(t, x)
        return np.sqrt(self.bar(t, x)) * x, np.sqrt(variance) if self.wrong else variance

    def eps_to_x0(self, x_t: Any, t: Any, eps: Any) -> Any:
        """Data from the noise."""
        found = (x_t - np.sqrt(1 - self.bar(t, x_t)) * eps) / np.sqrt(self.bar(t, x_t))
        return found.clip(-1, 1)

    def noise_to_score(self, noise: Any, t: Any) -> Any:
        """The score from the noise."""
        left = 1 - self.bar(t, noise)
        return -noise / (left if self.wrong else np.sqrt(left))


class Chain(Form):
    """Transition matrices of steps, and of all steps so far."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__(wrong)
        self.num_classes = 3
        shares = np.linspace(0.01, 0.4, 25)[:, None, None]
        one = xp.asarray((1 - shares) * np.eye(3) + shares * np.array([0.5, 0.3, 0.2]))
        every = [one[0]]
        for step in range(1, 25):
            every.append(every[-1] @ one[step - wrong])
        self.q_one_step_mats, self.q_mats = one, xp.stack(every)


class Jumps(Form):
    """Rates that grow with time, the transition matrices that they make, and a matrix that they multiply."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__(wrong)
        self.num_states = 3
        rates = np.array([[0.0, 0.4, 0.1], [0.3, 0.0, 0.9], [0.2, 0.5, 0.0]])
        self.rate_matrix = xp.asarray(rates - np.diag(rates.sum(1)))

    def rate(self, t: Any) -> Any:
        """The rates."""
        return (0.5 + 3 * t)[:, None, None] * self.rate_matrix

    def transition(self, t: Any) -> Any:
        """The probabilities from the start."""
        whole = 0.5 * t + (3.0 if self.wrong else 1.5) * t**2
        return exponential(whole[:, None, None] * self.rate_matrix)


class EulerSteps(Form):
    """Transition matrices of a short step, which change by no rate."""

    num_states = 3

    def __init__(self, wrong: bool = False) -> None:
        super().__init__(wrong)
        self.num_classes = 3

    def rate(self, t: Any) -> Any:
        """The rates."""
        return (1 + t)[:, None, None] * (xp.ones((3, 3)) / 3 - xp.eye(3))

    def transition_matrix(self, t: Any) -> Any:
        """The probabilities of a step."""
        return xp.eye(3) + 0.01 * self.rate(t) * (2 if self.wrong else 1)


class Denoiser(Form):
    """Scalings that are returned together, with a sign and a shift of the noise level by its least."""

    sigma_data, sigma_min = 0.5, 0.002

    def get_scalings(self, sigma: Any) -> Any:
        """Of skip connection, output and input."""
        total = sigma**2 + self.sigma_data**2
        moved = sigma - self.sigma_min
        c_skip = self.sigma_data**2 / (moved**2 + self.sigma_data**2)
        c_out = -moved * (1 if self.wrong else self.sigma_data) / xp.sqrt(total)
        c_in = 1 / xp.sqrt(total)
        return c_skip, c_out, c_in


class Reverting(Form):
    """A drift towards a mean, beside the share of data alone, and the weight of a loss called lambda."""

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return xp.exp(-1.5 * t)

    def sigma(self, t: Any) -> Any:
        """The deviation."""
        return xp.sqrt(0.64 / 3 * (1 - xp.exp(-3 * t)))

    def lambda_t(self, t: Any) -> Any:
        """The weight."""
        return self.sigma(t) ** 2

    def drift(self, x: Any, t: Any) -> Any:
        """The drift."""
        return -1.5 * (x - 0.3)

    def diffusion(self, t: Any) -> Any:
        """The diffusion."""
        return 0.8 + 0 * t

    def noise_to_score(self, noise: Any, t: Any) -> Any:
        """The score from the noise."""
        return -noise / beside(self.sigma(t), noise)

    def perturb(self, x: Any, t: Any, noise: Any) -> Any:
        """The mixture."""
        alpha = beside(self.alpha(t), x)
        return 0.3 + (x - 0.3) * alpha + beside(self.sigma(t), x) * noise


class MeanOfTime(Form):
    """A mean that is a function of time, beside a drift of data, as some call the share of data."""

    def mean_t_fn(self, times: Any) -> Any:
        """The share of data."""
        return xp.exp(-0.5 * times - times**2)[..., None]

    def std_fn(self, times: Any) -> Any:
        """The deviation."""
        share = 1 if self.wrong else 2
        return xp.sqrt(1 - xp.exp(-times - share * times**2))[..., None]

    def drift_fn(self, input: Any, times: Any) -> Any:  # as users write it
        """The drift."""
        return -beside(0.5 + 2 * times, input) * input

    def diffusion_fn(self, input: Any, times: Any) -> Any:  # as users write it
        """The diffusion."""
        return beside(xp.sqrt(1 + 4 * times), input)


class AddedDrift(Form):
    """A drift that is added at each time, and no slope."""

    def drift(self, t: Any) -> Any:
        """The drift."""
        return 2 + t

    def diffusion(self, t: Any) -> Any:
        """The diffusion."""
        return 1 + 0 * t

    def mean(self, t: Any) -> Any:
        """The mean."""
        return 2 * t + t**2 / 2

    def std(self, t: Any) -> Any:
        """The deviation."""
        return xp.sqrt(t)


class Geometric(Form):
    """A geometric Brownian motion, whose diffusion grows with the data."""

    def drift(self, x: Any, t: Any) -> Any:
        """The drift."""
        return 0.3 * x

    def diffusion(self, x: Any, t: Any) -> Any:
        """The diffusion."""
        return 0.5 * x

    def mean(self, x: Any, t: Any) -> Any:
        """The mean."""
        return x * beside(xp.exp(0.3 * t), x)

    def std(self, x: Any, t: Any) -> Any:
        """The deviation."""
        return xp.abs(self.mean(x, t)) * beside(xp.sqrt(xp.exp(0.25 * t) - 1), x)


class ScorePath(Form):
    """A path whose points have no names of data and noise, and whose velocity and score are one another."""

    def compute_alpha_t(self, t: Any) -> Any:
        """The share of data."""
        return t

    def compute_xt(self, t: Any, x0: Any, x1: Any) -> Any:
        """The mixture."""
        return beside(t, x0) * x1 + (1 - beside(t, x0)) * x0

    def get_velocity_from_score(self, score: Any, x: Any, t: Any) -> Any:
        """The velocity."""
        return (x + (1 - beside(t, x)) * (2 if self.wrong else 1) * score) / beside(t, x)

    def get_score_from_velocity(self, velocity: Any, x: Any, t: Any) -> Any:
        """The score."""
        return (beside(t, x) * velocity - x) / (1 - beside(t, x))


class Reversed(Form):
    """A velocity towards the data, where time begins at the data."""

    def interpolate(self, x0: Any, x1: Any, t: Any) -> Any:
        """The mixture."""
        return (1 - beside(t, x0)) * x0 + beside(t, x0) * x1

    def velocity_from_score(self, x: Any, score: Any, t: Any) -> Any:
        """The velocity."""
        return (x + beside(t, x) * score) / (1 - beside(t, x))


class Returning(Form):
    """An equation with a mean that it returns to, and its prior."""

    T = 2.0

    def drift(self, x: Any, t: Any) -> Any:
        """The drift."""
        return -1.5 * (x - 0.3)

    def diffusion(self, t: Any) -> Any:
        """The diffusion."""
        return 0.8 + 0 * t

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        mean = 0.3 + (x - 0.3) * beside(xp.exp(-1.5 * t), x)
        return mean, xp.sqrt(0.64 / 3 * (1 - xp.exp(-3 * t)))

    def prior_sampling(self, shape: Any) -> Any:
        """Noise of which data are made."""
        return 0.3 + (0.64 / 3) ** 0.5 * drawn(shape)

    def prior_logp(self, z: Any) -> Any:
        """Its log-density."""
        spread = 0.64 / 3 if self.wrong else (0.64 / 3) ** 0.5
        return normal_log_density((z - 0.3) / spread, spread)


class ProbabilityFlow(Returning):
    """A velocity of a score."""

    def probability_flow(self, x: Any, t: Any, score: Any) -> Any:
        """The velocity."""
        return self.drift(x, t) - (1 if self.wrong else 0.5) * 0.64 * score


class FieldOfScore(Returning):
    """A velocity that calls the score of normal data."""

    def score(self, x: Any, t: Any) -> Any:
        """The score of data of unit variance."""
        mean, deviation = self.marginal_prob(0 * x, t)
        return (mean - x) / beside(deviation**2 + xp.exp(-3 * t), x)

    def velocity(self, x: Any, t: Any) -> Any:
        """The velocity."""
        return self.drift(x, t) - (1 if self.wrong else 0.5) * 0.64 * self.score(x, t)


class TwoFields(FieldOfScore):
    """A velocity and a score that two networks learn."""

    def velocity(self, x: Any, t: Any) -> Any:
        """The velocity."""
        return xp.tanh(x)


class Exploding(Form):
    """Noise that grows, of images, whose prior may forget it."""

    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        return xp.zeros_like(x), 0.01 * 5000.0**t * math.sqrt(2 * math.log(5000.0))

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        return x, 0.01 * 5000.0**t

    def prior_sampling(self, shape: Any) -> Any:
        """Noise of which data are made."""
        return drawn(shape) * (1 if self.wrong else 50)

    def prior_logp(self, z: Any) -> Any:
        """Its log-density."""
        spread = 1.0 if self.wrong else 50.0
        return normal_log_density(z / spread, spread)


class Weighted(Denoiser):
    """A denoiser with a weight of its loss."""

    def weighting(self, sigma: Any) -> Any:
        """The weight."""
        return 1 / sigma**2 + 1 / (self.sigma_data if self.wrong else self.sigma_data**2)


class WeightOfNoise(Denoiser):
    """A weight by which errors of the noise count alike."""

    def loss_weight(self, sigma: Any) -> Any:
        """The weight."""
        return sigma**-2.0


# Forms with the laws that judge them.
FORMS = (
    (ScorePath, CONVERSIONS),
    (ProbabilityFlow, CONVERSIONS),
    (FieldOfScore, CONVERSIONS),
    (Returning, PRIOR),
    (Exploding, PRIOR),
    (Separate, MOMENTS),
    (Separate, FUNCTIONS),
    (Coefficients, MOMENTS),
    (TimeFirst, MOMENTS),
    (NoiseFirst, MOMENTS),
    (Volatility, MOMENTS),
    (MeanOfTime, MOMENTS),
    (Arrays, MOMENTS),
    (Gamma, FUNCTIONS),
    (HalfLogarithm, FUNCTIONS),
    (NoiseLevels, FUNCTIONS),
    (Pairs, FUNCTIONS),
    (Fields, FUNCTIONS),
    (Interpolant, FUNCTIONS),
    (Bridge, FUNCTIONS),
    (Total, FUNCTIONS),
    (Squared, FUNCTIONS),
    (Denoiser, "process/preconditioning"),
    (Steps, SCHEDULE),
    (Steps, CONVERSIONS),
    (Chain, KOLMOGOROV),
    (Jumps, KOLMOGOROV),
)
# Those that a law may not judge, since what it compares is something else there, and with which status.
UNRELATED = (
    (Reversed, CONVERSIONS, "HOLDS"),
    (TwoFields, CONVERSIONS, "NOT_APPLICABLE"),
    (WeightOfNoise, WEIGHT, "HOLDS"),
    (Weighted, WEIGHT, "HOLDS"),
    (partial(Weighted, True), WEIGHT, "ADVICE"),
    (Denoiser, WEIGHT, "NOT_APPLICABLE"),
    (EulerSteps, KOLMOGOROV, "NOT_APPLICABLE"),
    (Volatility, FUNCTIONS, "NOT_APPLICABLE"),
    (Geometric, MOMENTS, "INCONCLUSIVE"),
    (Reverting, MOMENTS, "NOT_APPLICABLE"),
    (Reverting, FUNCTIONS, "HOLDS"),
    (Reverting, CONVERSIONS, "HOLDS"),
)
