"""Likelihoods of diffusion and flow matching as users write them, right and wrong, of data whose field is known
in closed form: a mixture of normals, so that nothing is trained.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

LOG_2_PI = math.log(2 * math.pi)
# Nothing is wrong.
RIGHT = ""


def normal(z: Any, deviation: float = 1.0) -> Any:
    """Independent normal entries."""
    squares = ((z / deviation) ** 2).sum(-1)
    return -0.5 * squares - z.shape[-1] * (0.5 * LOG_2_PI + math.log(deviation))


class Mixture(nn.Module):
    """Two normals, $N(m_i, w_i^2)$; what is known of them at $x_t = a x_0 + s e$."""

    means: Any
    widths: Any
    shares: Any

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.tensor([[-1.0, 0.4], [0.9, -0.3]])[:, :entries])
        self.register_buffer("widths", torch.tensor([0.5, 0.7]))
        self.register_buffer("shares", torch.tensor([0.4, 0.6]))

    def parts(self, x: Any, a: Any, s: Any) -> tuple[Any, Any]:
        """The log-density, and the score."""
        variance = (a * self.widths) ** 2 + s**2
        off = x.unsqueeze(-2) - a * self.means
        logs = -0.5 * (off**2).sum(-1) / variance - 0.5 * x.shape[-1] * (variance.log() + LOG_2_PI)
        logs = logs + self.shares.log()
        weights = torch.softmax(logs, -1)
        return logs.logsumexp(-1), (weights.unsqueeze(-1) * -off / variance[:, None]).sum(-2)

    def score(self, x: Any, a: Any, s: Any) -> Any:
        """The gradient of the log-density."""
        return self.parts(x, a, s)[1]

    def clean(self, x: Any, a: Any, s: Any) -> Any:
        """The mean of the data at a noised point."""
        if isinstance(a, float) and a == 0:
            return (self.shares[:, None] * self.means).sum(0).expand_as(x)
        return (x + s**2 * self.score(x, a, s)) / a

    def noise(self, x: Any, a: Any, s: Any) -> Any:
        """The mean of the noise in it."""
        return -s * self.score(x, a, s)


def divergence(field: Any, x: Any, t: Any) -> tuple[Any, Any]:
    """A field and its divergence, coordinate by coordinate."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        v = field(x, t)
        total: Any = sum(
            torch.autograd.grad(v[:, i].sum(), x, retain_graph=True)[0][:, i]
            for i in range(x.shape[1])
        )
    return v.detach(), total.detach()


class Likelihood(nn.Module):
    """What all have: data, a number of steps, and what is wrong."""

    event_shape: tuple[int, ...] = (1,)
    n_steps = 16

    def __init__(self, wrong: str = RIGHT) -> None:
        super().__init__()
        self.net, self.wrong = Mixture(*self.event_shape), wrong

    def noise(self, n: int) -> Any:
        """Standard normal numbers."""
        return torch.randn(n, *self.event_shape, dtype=self.net.means.dtype)


class FlowMatching(Likelihood):
    """Straight lines from noise at 0 to data at 1, by steps of Runge and Kutta."""

    def velocity(self, x: Any, t: float) -> Any:
        """The marginal field."""
        if t == 0:
            return self.net.clean(x, 0.0, 1.0) - x
        return (x + (1 - t) * self.net.score(x, t, 1 - t)) / t

    def rate(self, x: Any, t: float) -> tuple[Any, Any]:
        """Velocity and divergence."""
        v, div = divergence(self.velocity, x, t)
        if self.wrong == "half-of-the-divergence":
            div = div / 2
        return v, -div if self.wrong == "sign-of-the-divergence" else div

    def odeint(self, x: Any, start: float, end: float, traced: bool) -> tuple[Any, Any]:
        """Classic steps."""
        total, h = torch.zeros_like(x[:, 0]), (end - start) / self.n_steps
        steps = self.n_steps
        if self.wrong == "last-step-skipped" and traced:
            steps -= 1
        rate = self.rate if traced else lambda x, t: (self.velocity(x, t), 0.0)
        for i in range(steps):
            t = start + i * h
            k1, d1 = rate(x, t)
            k2, d2 = rate(x + h / 2 * k1, t + h / 2)
            k3, d3 = rate(x + h / 2 * k2, t + h / 2)
            k4, d4 = rate(x + h * k3, start + (i + 1) * h)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            total = total + h / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
        return x, total

    def log_prob(self, x: Any) -> Any:
        """Back to the noise, with minus the divergence along the way there."""
        if self.wrong == "time-reversed":
            z, change = self.odeint(x, 0.0, 1.0, traced=True)
            return normal(z) - change
        z, change = self.odeint(x, 1.0, 0.0, traced=True)
        return normal(z) + change

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Noise to data."""
        return self.odeint(self.noise(n), 0.0, 1.0, traced=False)[0]


class Normalized(FlowMatching):
    """The same of data that were brought to mean zero and deviation one."""

    mean: Any
    std: Any

    def __init__(self, wrong: str = RIGHT) -> None:
        super().__init__(wrong)
        self.register_buffer("mean", torch.tensor([3.0]))
        self.register_buffer("std", torch.tensor([1.3]))

    def log_prob(self, x: Any) -> Any:
        """In the units of the data."""
        inner = super().log_prob((x - self.mean) / self.std)
        return inner if self.wrong == "scale-of-the-data" else inner - self.std.log().sum()

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """In the units of the data."""
        return super().sample(n) * self.std + self.mean


class Pixels(FlowMatching):
    """Data of 256 levels brought to [-1, 1], in bits per dimension."""

    promises = {"level": 2 / 256}  # noqa: RUF012  # as users write it
    n_steps = 4

    def bits_per_dim(self, x: Any) -> Any:
        """With the offset of the range."""
        bits = -self.log_prob(x) / math.log(2)
        return bits + {"offset": 8.0, "levels": 0.0}.get(self.wrong, 7.0)


class Dequantized(Pixels):
    """The same, whose levels are told by its own dequantization alone."""

    promises: dict[str, float] = {}  # noqa: RUF012  # as users write it

    def dequantize(self, levels: Any, noise: Any) -> Any:
        """Levels to [-1, 1]."""
        return (levels + noise) / 128 - 1


class VPSDE(Likelihood):
    """An equation that preserves the variance, with the interface of `score_sde`, by steps of Heun."""

    beta_0, beta_1, eps = 0.1, 12.0, 1e-2
    n_steps = 24

    def marginal_prob(self, t: float) -> tuple[float, float]:
        """How much is left of data, and the deviation of the noise."""
        log_mean = -0.25 * t**2 * (self.beta_1 - self.beta_0) - 0.5 * t * self.beta_0
        return math.exp(log_mean), math.sqrt(1 - math.exp(2 * log_mean))

    def score(self, x: Any, t: float) -> Any:
        """Of the marginal."""
        return self.net.score(x, *self.marginal_prob(t))

    def sde(self, x: Any, t: float) -> tuple[Any, float]:
        """Drift and diffusion."""
        beta = self.beta_0 + t * (self.beta_1 - self.beta_0)
        return -0.5 * beta * x, math.sqrt(beta)

    def drift(self, x: Any, t: float) -> Any:
        """Of the probability flow."""
        drift, g = self.sde(x, t)
        return drift - 0.5 * g**2 * self.score(x, t)

    def drift_of_likelihood(self, x: Any, t: float) -> Any:
        """The same, as it is written a second time."""
        if self.wrong == "half-of-the-score":
            drift, g = self.sde(x, t)
            return drift - g**2 * self.score(x, t)
        if self.wrong == "sigma-squared":
            a, s = self.marginal_prob(t)
            drift, g = self.sde(x, t)
            return drift + 0.5 * g**2 * self.net.noise(x, a, s) / s**2
        if self.wrong == "time-of-the-score":
            drift, g = self.sde(x, t)
            return drift - 0.5 * g**2 * self.score(x, 1 - t + self.eps)
        return self.drift(x, t)

    def log_prob(self, x: Any) -> Any:
        """Along the flow to the noise."""
        total, h = torch.zeros_like(x[:, 0]), (1 - self.eps) / self.n_steps
        for i in range(self.n_steps):
            t = self.eps + i * h
            v, div = divergence(self.drift_of_likelihood, x, t)
            w, later = divergence(self.drift_of_likelihood, x + h * v, t + h)
            x, total = x + h / 2 * (v + w), total + h / 2 * (div + later)
        return normal(x) + total

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Along the flow from the noise."""
        x, h = self.noise(n), (1 - self.eps) / self.n_steps
        for i in reversed(range(self.n_steps)):
            t = self.eps + (i + 1) * h
            v = self.drift(x, t)
            x = x - h / 2 * (v + self.drift(x - h * v, t - h))
        return x


class VESDE(Likelihood):
    """An equation in which the variance explodes, by Euler's steps in the logarithm of the noise."""

    sigma_min, sigma_max = 0.05, 8.0
    n_steps = 60

    def log_prob(self, x: Any) -> Any:
        """Along the flow to the noise."""
        total, h = (
            torch.zeros_like(x[:, 0]),
            math.log(self.sigma_max / self.sigma_min) / self.n_steps,
        )

        def field(x: Any, t: float) -> Any:
            sigma = self.sigma_min * math.exp(t)
            return -(sigma**2) * self.net.score(x, 1.0, sigma)

        for i in range(self.n_steps):
            v, div = divergence(field, x, i * h)
            w, later = divergence(field, x + h * v, (i + 1) * h)
            x, total = x + h / 2 * (v + w), total + h / 2 * (div + later)
        scales = {"scale-of-the-base": 1.0, "variance-of-the-base": self.sigma_max**2}
        return normal(x, scales.get(self.wrong, self.sigma_max)) + total

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Along the flow from the noise."""
        x, h = (
            self.sigma_max * self.noise(n),
            math.log(self.sigma_max / self.sigma_min) / self.n_steps,
        )

        def field(x: Any, t: float) -> Any:
            sigma = self.sigma_min * math.exp(t)
            return -(sigma**2) * self.net.score(x, 1.0, sigma)

        for i in reversed(range(self.n_steps)):
            v = field(x, (i + 1) * h)
            x = x - h / 2 * (v + field(x - h * v, i * h))
        return x


class Angles(Likelihood):
    """Noise by angles, a network that predicts v, and midpoint steps."""

    n_steps = 40

    def v(self, x: Any, t: float) -> Any:
        """alpha eps - sigma x0."""
        a, s = math.cos(t), math.sin(t)
        if s == 0:
            return self.net.noise(x, a, s)
        return (a * self.net.noise(x, a, s)) - s * self.net.clean(x, a, s)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """By the same velocity."""
        x, h = self.noise(n), (math.pi / 2 - 0.05) / self.n_steps
        for i in reversed(range(self.n_steps)):
            t = (i + 1) * h
            x = x - h * self.v(x - h / 2 * self.v(x, t), t - h / 2)
        return x

    def log_prob(self, x: Any) -> Any:
        """The velocity is v."""
        total, h = torch.zeros_like(x[:, 0]), (math.pi / 2 - 0.05) / self.n_steps

        def velocity(x: Any, t: float) -> Any:
            if self.wrong == "signs-of-v":
                a, s = math.cos(t), math.sin(t)
                v = self.v(x, t)
                x0, eps = a * x + s * v, s * x - a * v
                return a * eps - s * x0
            return self.v(x, t)

        for i in range(self.n_steps):
            v, _ = divergence(velocity, x, i * h)
            middle, div = divergence(velocity, x + h / 2 * v, (i + 0.5) * h)
            x, total = x + h * middle, total + h * div
        return normal(x) + total


class Estimated(FlowMatching):
    """The divergence by Hutchinson's estimate, with signs that are drawn for a whole solve, or for each step."""

    event_shape = (2,)
    n_steps = 12

    def __init__(self, wrong: str = RIGHT) -> None:
        super().__init__(wrong)
        # What a network learns, which a field reads each time.
        means = self.net.means
        del self.net.means
        self.net.means = nn.Parameter(means)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to noise."""
        total, h = torch.zeros_like(x[:, 0]), -1.0 / self.n_steps
        signs = torch.randn_like(x).sign()
        for i in range(self.n_steps):
            t = 1 + (i + 0.5) * h
            half = x + h / 2 * self.velocity(x, 1 + i * h)
            if self.wrong == "noise-of-each-step":
                signs = torch.randn_like(x).sign()
            with torch.enable_grad():
                if not half.requires_grad:
                    half = half.requires_grad_()
                v = self.velocity(half, t)
                pulled = torch.autograd.grad((v * signs).sum(), half, create_graph=True)[0]
            x, total = x + h * v, total + h * (pulled * signs).sum(-1)
        return x, 2 * total if self.wrong == "twice-the-estimate" else total

    def inverse(self, z: Any) -> Any:
        """Noise to data."""
        return self.odeint(z, 0.0, 1.0, traced=False)[0]

    def log_prob(self, x: Any) -> Any:
        """An estimate, whose mean it is."""
        z, change = self.forward(x)
        return normal(z) + change


class NoisedBound(Likelihood):
    """The bound of data with a little noise: the density of what is noised, and that of data given it, less the
    log-density of the noise.
    """

    lower_bound = "one-sample"
    a, s = 0.9, 0.3

    def log_prob(self, x: Any) -> Any:
        """One sample of the bound."""
        noise = torch.randn_like(x)
        noised = self.a * x + self.s * noise
        # The posterior of a normal of deviation one, as a decoder that is near to the right one.
        total = self.a**2 + self.s**2
        back = normal(x - self.a * noised / total, self.s / math.sqrt(total))
        bound = self.net.parts(noised, self.a, self.s)[0] + back
        return bound if self.wrong == "entropy" else bound - normal(noise) + math.log(self.s)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """What is noised, and data given it."""
        which = torch.multinomial(self.net.shares, n, replacement=True)
        data = self.net.means[which] + self.net.widths[which, None] * self.noise(n)
        noised = self.a * data + self.s * self.noise(n)
        total = self.a**2 + self.s**2
        return self.a * noised / total + self.s / math.sqrt(total) * self.noise(n)


class Euler(FlowMatching):
    """By the simplest steps: its error falls as their length."""

    n_steps = 32

    def odeint(self, x: Any, start: float, end: float, traced: bool) -> tuple[Any, Any]:
        """Euler's steps."""
        total, h = torch.zeros_like(x[:, 0]), (end - start) / self.n_steps
        for i in range(self.n_steps):
            t = start + i * h
            v, div = self.rate(x, t) if traced else (self.velocity(x, t), 0.0)
            x, total = x + h * v, total + h * div
        return x, total


KINDS: dict[str, type[Likelihood]] = {
    kind.__name__: kind
    for kind in (FlowMatching, Normalized, Pixels, VPSDE, VESDE, Angles, Estimated, NoisedBound, Euler)
}  # fmt: skip


def make(kind: str, wrong: str = RIGHT) -> nn.Module:
    """One of them."""
    return KINDS[kind](wrong)
