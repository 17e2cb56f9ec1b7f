"""Sampling by distribution functions: quantiles, the probability integral transform, Rosenblatt's
map, and latent averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Laplace, Normal
from torch.special import ndtri

from flowref.reference.bijection import Bijection, over_event
from flowref.reference.elementwise import check_between

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class ElementwiseCDF(Bijection):
    r"""The probability integral transform: $u_i = F(x_i)$ with the distribution function of a
    continuous univariate base.

    If the entries of x are independent draws from the base, those of u are independent and uniform
    on (0, 1).
    ladj: $\sum_i \log p(x_i)$.  Inverse: $x_i = F^{-1}(u_i)$, which samples the base from uniform
    numbers.
    ``base``: a distribution of torch with `cdf` and `icdf`, of one event or of a batch that
    broadcasts to an event. $F$ must be strictly increasing where the density is positive: with
    atoms, u is not uniform.
    Shapes: x and u `(N, *event)`, ladj `(N,)`.  Units: nats.
    At the ends of the range of u the quantiles are the ends of the support.
    Raises: `ValueError` for x outside the support, and from `inverse` for numbers outside [0, 1].
    """

    def __init__(self, base: Distribution) -> None:
        super().__init__()
        self.family = type(base)
        self.names = tuple(base.arg_constraints)
        # As buffers, so that the parameters follow the module to another dtype or device.
        for name in self.names:
            self.register_buffer(name, torch.as_tensor(getattr(base, name)).detach().clone())

    @property
    def base(self) -> Distribution:
        """The distribution, in the module's dtype."""
        return self.family(
            **{name: getattr(self, name) for name in self.names}, validate_args=False
        )

    @property
    def domain(self) -> tuple[float, float]:
        """The open interval that is mapped onto (0, 1)."""
        support = self.base.support
        return _support_bound(support, "lower_bound", -math.inf), _support_bound(
            support, "upper_bound", math.inf
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(u, ladj)`."""
        check_within(x, *self.domain)
        base = self.base
        if isinstance(base, Normal):
            return normal_cdf((x - base.loc) / base.scale), self._ladj(x)
        u: Tensor = base.cdf(x)
        return u, self._ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_within(z, 0.0, 1.0)
        base = self.base
        if isinstance(base, Normal):
            x: Tensor = base.loc + base.scale * ndtri(z)
        elif isinstance(
            base, Laplace
        ):  # torch subtracts 1/2 from z first, and loses the lower tail
            tail = (2 * torch.minimum(z, 1 - z)).log()
            x = base.loc + base.scale * torch.where(z < 0.5, tail, -tail)
        else:
            x = base.icdf(z)
        return x, -self._ladj(x)

    def _ladj(self, x: Tensor) -> Tensor:
        return over_event(self.base.log_prob(x))


class Rosenblatt(Bijection):
    r"""Rosenblatt's map of a multivariate normal:
    $u_i = P(X_i \le x_i \mid X_1 = x_1, \dots, X_{i-1} = x_{i-1})$.

    The conditional distributions of a normal are normal, and $z = L^{-1}(x - \mu)$ standardizes
    each by its own mean and deviation, with the Cholesky factor of the covariance $LL^T$; so
    $u = \Phi(z)$. The Jacobian is lower triangular, and its log-determinant is the sum of the
    conditional log-densities, the log-density of x.
    Draws of the normal are mapped to independent uniform numbers; the inverse makes draws of them.
    Shapes: mean `(D,)`, covariance `(D, D)`, x and u `(N, D)`, ladj `(N,)`.  Units: nats.
    Raises: an error of torch for a covariance that is not positive definite, `ValueError` from
    `inverse` outside [0, 1].
    Source: Rosenblatt 1952, Remarks on a multivariate transformation, Annals of Mathematical
    Statistics 23.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("factor", torch.linalg.cholesky(covariance.detach()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(u, ladj)`."""
        z = torch.linalg.solve_triangular(self.factor, (x - self.mean).mT, upper=False).mT
        return normal_cdf(z), self._ladj(z)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_within(z, 0.0, 1.0)
        standard = ndtri(z)
        return self.mean + standard @ self.factor.mT, -self._ladj(standard)

    def _ladj(self, z: Tensor) -> Tensor:
        constant = len(self.mean) * HALF_LOG_2_PI + self.factor.diagonal().log().sum()
        return -0.5 * z.square().sum(1) - constant


class Exponential(nn.Module):
    r"""The exponential distribution: $F(x) = 1 - e^{-\lambda x}$ for $x > 0$, sampled by its
    quantile function.

    Shapes: x and u `(N,)`.  Units: nats.
    """

    rate: Tensor

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        if not rate > 0:
            raise ValueError(f"got rate={rate}; expected a positive number")
        self.register_buffer("rate", torch.as_tensor(rate, dtype=torch.get_default_dtype()))

    def log_prob(self, x: Tensor) -> Tensor:
        """The log-density of each number, `(N,)`."""
        check_between(x, 0.0, math.inf)
        return self.rate.log() - self.rate * x

    def cdf(self, x: Tensor) -> Tensor:
        """$F(x)$, by expm1, which is accurate for small x."""
        return -torch.expm1(-self.rate * x)

    def icdf(self, u: Tensor) -> Tensor:
        """The quantile of each u, `(N,)`."""
        return exponential_quantile(u, self.rate)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n numbers, `(n,)`."""
        u = torch.rand(n, generator=generator, dtype=self.rate.dtype, device=self.rate.device)
        # Zero has probability 2^-53 and no log-density.
        return inverse_transform_sample(self.icdf, u.clamp_min(torch.finfo(u.dtype).tiny))


class Atoms(nn.Module):
    r"""A distribution on finitely many values $v_1 < \dots < v_n$ with positive probabilities, as a
    step function.

    $F(x) = \sum_{v_k \le x} p_k$ and $F^{-1}(u) = \min\{v : F(v) \ge u\}$, so that
    $F^{-1}(u) \le x$ iff $u \le F(x)$, also at the atoms, where neither inverts the other.
    Probabilities are normalized; $F(v_n) = 1$ holds exactly.
    Shapes: values and probabilities `(n,)`, x and u of any shape.
    Raises: `ValueError` for values that do not increase, or probabilities that are not positive.
    """

    values: Tensor
    steps: Tensor

    def __init__(self, values: Tensor, probabilities: Tensor) -> None:
        super().__init__()
        if not (bool((values.diff() > 0).all()) and bool((probabilities > 0).all())):
            raise ValueError(
                f"got values {values} with probabilities {probabilities}; expected both orders "
                "strict"
            )
        cumulated = probabilities.cumsum(0)
        self.register_buffer("values", values.clone())
        self.register_buffer("steps", cumulated / cumulated[-1])

    def cdf(self, x: Tensor) -> Tensor:
        """The cumulative probability of each x, in its shape."""
        reached = torch.searchsorted(self.values, x.contiguous(), right=True)
        return torch.cat([self.steps.new_zeros(1), self.steps])[reached]

    def icdf(self, u: Tensor) -> Tensor:
        """The smallest value whose cumulative probability reaches u."""
        return self.values[
            torch.searchsorted(self.steps, u.contiguous()).clamp_max(len(self.values) - 1)
        ]


def normal_cdf(z: Tensor) -> Tensor:
    r"""$\Phi(z)$, by erfc: $1 + \mathrm{erf}$ loses the lower tail to cancellation."""
    return 0.5 * torch.erfc(-z * math.sqrt(0.5))


def inverse_transform_sample(ppf: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    r"""$F^{-1}(u)$: samples of the distribution with quantile function ``ppf``, for u uniform on
    (0, 1).

    Valid for every distribution, with atoms too: $P(F^{-1}(U) \le x) = P(U \le F(x)) = F(x)$.
    """
    return ppf(u)


def exponential_quantile(u: Tensor, rate: Tensor | float = 1.0) -> Tensor:
    r"""$-\log(1 - u) / \lambda$, by log1p, since $1 - u$ rounds to 1 for small u; 0 at 0 and
    infinite at 1.
    """
    return -torch.log1p(-u) / rate


def latent_log_likelihood(log_conditionals: Tensor) -> Tensor:
    r"""$\log \frac1K \sum_k p(x \mid z_k)$ with $z_k$ from the prior: an estimate of $\log p(x)$
    that is low on average.

    The mean of likelihoods is unbiased; its logarithm is not, by Jensen's inequality, and rises to
    $\log p(x)$ with K. Draws from the prior are not weighted by the prior again.

    Shapes: $\log p(x_n \mid z_k)$ `(K, N)`, result `(N,)`. Units: nats.
    """
    return torch.logsumexp(log_conditionals, 0) - math.log(len(log_conditionals))


class GaussianLatentModel(nn.Module):
    r"""$x = Wz + b + \sigma\varepsilon$ with standard normal $z$ and $\varepsilon$, so that $x \sim
    N(b, WW^T + \sigma^2 I)$.

    The simplest latent-variable model: its likelihood has a closed form, to compare `estimate` with.
    Shapes: weight `(D, latents)`, bias `(D,)`, x `(N, D)`, log-densities `(N,)`.  Units: nats.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, noise: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("weight", weight.clone())
        self.register_buffer("bias", bias.clone())
        self.noise = noise

    def log_prob(self, x: Tensor) -> Tensor:
        """The log-density `(N,)`, in closed form."""
        covariance = self.weight @ self.weight.mT + self.noise**2 * torch.eye(len(self.bias)).to(
            self.weight
        )
        factor = torch.linalg.cholesky(covariance)
        z = torch.linalg.solve_triangular(factor, (x - self.bias).mT, upper=False)
        constant = len(self.bias) * HALF_LOG_2_PI + factor.diagonal().log().sum()
        density: Tensor = -0.5 * z.square().sum(0) - constant
        return density

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n draws `(n, D)`: a latent first, then the data given it."""
        means = self._latents(n, generator) @ self.weight.mT + self.bias
        return means + self.noise * self._normal(means.shape, generator)

    def estimate(self, x: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        """The log-density `(N,)`, estimated from ``draws`` latents (see
        `latent_log_likelihood`).
        """
        means = self._latents(draws, generator) @ self.weight.mT + self.bias
        standard = (x - means[:, None]) / self.noise
        constant = len(self.bias) * (HALF_LOG_2_PI + math.log(self.noise))
        return latent_log_likelihood(-0.5 * standard.square().sum(-1) - constant)

    def _latents(self, n: int, generator: torch.Generator | None) -> Tensor:
        return self._normal((n, self.weight.shape[1]), generator)

    def _normal(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        like = self.weight
        return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def check_within(x: Tensor, low: float, high: float) -> None:
    """Raises `ValueError` if a number lies outside the closed interval; NaN passes, as in
    arithmetic.
    """
    if torch.compiler.is_compiling() or x.numel() == 0:
        return  # a compiled graph cannot branch on values
    if bool(((x < low) | (x > high)).any()):
        least, most = x.aminmax()
        raise ValueError(
            f"got values from {least:g} to {most:g}; expected all between {low:g} and {high:g}"
        )


def _support_bound(support: object, name: str, default: float) -> float:
    return float(getattr(support, name, default))
