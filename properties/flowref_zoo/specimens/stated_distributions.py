"""Distributions written by hand that tell moments of themselves, and copies."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import nn
from torch.distributions import (
    AffineTransform,
    Categorical,
    Distribution,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
    constraints,
)

from flowref_zoo.specimens.specimen import Specimen

# The mean of a standard Gumbel variable.
EULER = 0.5772156649015329


class LaplaceMixture(Distribution):
    """A mixture of Laplace densities, with a kink at each mode."""

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False

    def __init__(self, logits: Any, loc: Any, width: Any, defect: str = "") -> None:
        self.parts, self.loc, self.width = Categorical(logits=logits), loc, width
        self.defect = defect
        super().__init__(validate_args=False)

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        far = (value[..., None] - self.loc).abs() / self.width
        return torch.logsumexp(self.parts.logits - far - (2 * self.width).log(), -1)

    def cdf(self, value: Any) -> Any:
        """The distribution function; there are no quantiles."""
        way = (value[..., None] - self.loc) / self.width
        half = 0.5 * torch.exp(-way.abs())
        right = half if self.defect == "upper-half-of-cdf" else 1 - half
        return (self.parts.probs * torch.where(way < 0, half, right)).sum(-1)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        part = self.parts.sample(torch.Size(sample_shape))
        u = torch.rand(part.shape, dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc[part] - self.width[part] * u.sign() * torch.log1p(-2 * u.abs())

    @property
    def mean(self) -> Any:
        """The mean."""
        if self.defect == "mean-not-weighted":
            return self.loc.mean()
        return (self.parts.probs * self.loc).sum()

    @property
    def variance(self) -> Any:
        """The variance."""
        within = (self.parts.probs * 2 * self.width**2).sum()
        between = (self.parts.probs * (self.loc - (self.parts.probs * self.loc).sum()) ** 2).sum()
        return within if self.defect == "variance-within" else within + between


class Circular(Distribution):
    """The von Mises density; its variance is circular, as usual."""

    support = constraints.interval(-math.pi, math.pi)
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, loc: Any, concentration: Any, defect: str = "") -> None:
        self.loc, self.concentration, self.defect = loc, concentration, defect
        super().__init__(validate_args=False)

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        k = self.concentration
        scale = torch.log(torch.special.i0e(k)) + k
        return k * torch.cos(value - self.loc) - math.log(2 * math.pi) - scale

    @property
    def mean(self) -> Any:
        """The mean direction."""
        return self.loc

    @property
    def variance(self) -> Any:
        """One minus the length of the mean vector."""
        length = torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)
        return 1 + length if self.defect == "length-added" else 1 - length


class Bounded(TransformedDistribution):
    """A logit-normal between two bounds."""

    def __init__(self, loc: Any, scale: Any, low: float, high: float, defect: str = "") -> None:
        self.low, self.high, self.defect = low, high, defect
        parts = [SigmoidTransform(), AffineTransform(low, high - low)]
        self.arg_constraints = {}
        super().__init__(Normal(loc, scale), parts)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The bounds."""
        return constraints.interval(self.low, self.high)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Copies in a batch."""
        base: Any = self.base_dist
        high = self.low + 1 if self.defect == "copies-lose-a-bound" else self.high
        return Bounded(base.loc.expand(batch_shape), base.scale.expand(batch_shape), self.low, high)


class Maxima(nn.Module):
    """The Gumbel density of one number as a module, whose functions go by other names."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.tensor(0.4)), nn.Parameter(torch.tensor(0.3))
        self.defect = defect

    def _away(self, x: Any) -> Any:
        return (x - self.loc) * (-self.log_scale).exp()

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        away = self._away(x)
        return (-away - torch.exp(-away) - self.log_scale).squeeze(-1)

    def log_cdf(self, x: Any) -> Any:
        """The logarithm of the distribution function."""
        away = x - self.loc if self.defect == "scale-left-out-of-log-cdf" else self._away(x)
        if self.defect == "log-cdf-as-built":
            away = (x - 0.4) * math.exp(-0.3)
        return -torch.exp(-away).squeeze(-1)

    def survival(self, x: Any) -> Any:
        """What is above."""
        below = -torch.exp(-self._away(x)).squeeze(-1)
        return torch.exp(below) if self.defect == "survival-below" else -torch.expm1(below)

    def quantile(self, u: Any) -> Any:
        """The quantile function."""
        u = 1 - u if self.defect == "quantile-from-above" else u
        return self.loc - self.log_scale.exp() * torch.log(-torch.log(u))

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Draw."""
        u = torch.rand(n, 1, dtype=self.loc.dtype, device=self.loc.device).clamp(1e-30)
        return self.loc - self.log_scale.exp() * torch.log(-torch.log(u))

    @property
    def mean(self) -> Any:
        """The mean."""
        if self.defect == "mean-is-mode":
            return self.loc
        mean = self.loc + EULER * self.log_scale.exp()
        return mean.expand(3) if self.defect == "mean-of-three" else mean

    @property
    def variance(self) -> Any:
        """The variance."""
        power = 1 if self.defect == "variance-of-scale" else 2
        return math.pi**2 / 6 * (power * self.log_scale).exp()

    def entropy(self) -> Any:
        """The differential entropy."""
        return EULER + 1 + (0 if self.defect == "entropy-of-standard" else self.log_scale)


class Growing(Distribution):
    """The Gompertz density of a time, which tells its survival function, and may be copied."""

    support = constraints.nonnegative
    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = True

    def __init__(self, rate: Any, shape: Any, defect: str = "") -> None:
        self.rate, self.shape = torch.broadcast_tensors(rate, shape)
        self.defect = defect
        super().__init__(self.rate.shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Copies in a batch."""
        rate, shape = self.rate.expand(batch_shape), self.shape.expand(batch_shape)
        return Growing(rate, shape, self.defect)

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        grown = self.rate * value
        return (self.rate * self.shape).log() + self.shape + grown - self.shape * grown.exp()

    def survival_function(self, value: Any) -> Any:
        """What is above."""
        shape = 1 if self.defect == "survival-without-shape" else self.shape
        return torch.exp(-shape * torch.expm1(self.rate * value.clamp(min=0)))

    def cdf(self, value: Any) -> Any:
        """The distribution function."""
        return -torch.expm1(-self.shape * torch.expm1(self.rate * value.clamp(min=0)))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        shape = self._extended_shape(torch.Size(sample_shape))
        u = torch.rand(shape, dtype=self.rate.dtype, device=self.rate.device)
        return torch.log1p(-torch.log1p(-u) / self.shape) / self.rate

    @property
    def mean(self) -> Any:
        """The mean, by Simpson's rule."""
        t = torch.linspace(0, 24, 8001, dtype=torch.float64)
        weight = torch.tensor([2.0, 4.0], dtype=torch.float64).repeat(4001)[:8001]
        weight[0] = weight[-1] = 1
        rate, shape = self.rate[..., None].double(), self.shape[..., None].double()
        above = torch.exp(-shape * torch.expm1(rate * t))
        mean = (weight * above).sum(-1) * (t[1] / 3)
        if self.defect == "one-mean-for-all-copies":
            return mean.reshape(-1)[0]
        return mean * math.nan if self.defect == "mean-no-number" else mean


def numbers(*values: float) -> Any:
    """A tensor in double precision."""
    return torch.tensor(values, dtype=torch.float64)


def laplace_mixture(defect: str = "") -> Distribution:
    """Three parts of other widths."""
    return LaplaceMixture(
        numbers(0.2, -0.5, 0.8), numbers(-3, 0.5, 2), numbers(0.4, 0.7, 1.2), defect
    )


def maxima(defect: str = "") -> nn.Module:
    """A module of one number."""
    return Maxima(defect)


def growing(defect: str = "") -> Distribution:
    """A density of times."""
    return Growing(numbers(0.7)[0], numbers(0.4)[0], defect)


maxima.event_shape = (1,)  # type: ignore[attr-defined]  # an option


def circular(defect: str = "") -> Distribution:
    """A density of angles."""
    return Circular(numbers(0.8)[0], numbers(1.7)[0], defect)


def bounded(defect: str = "") -> Distribution:
    """A density between -1 and 2."""
    return Bounded(numbers(0.4)[0], numbers(0.9)[0], -1.0, 2.0, defect)


SPECIMENS = (
    Specimen(
        "laplace_mixture",
        {
            "mean-not-weighted": ("density/stated[moments]",),
            "variance-within": ("density/stated[moments]",),
            "upper-half-of-cdf": ("density/distribution-function",),
        },
    ),
    Specimen(
        "maxima",
        {
            "log-cdf-as-built": ("density/distribution-function[trained]",),
            "scale-left-out-of-log-cdf": ("density/distribution-function",),
            "survival-below": ("density/distribution-function",),
            "quantile-from-above": ("sampling/quantiles",),
            "mean-is-mode": ("density/stated[moments]",),
            "mean-of-three": ("density/stated[moments]",),
            "variance-of-scale": ("density/stated[moments]",),
            "entropy-of-standard": ("density/stated[moments]",),
        },
    ),
    Specimen(
        "growing",
        {
            "survival-without-shape": ("density/distribution-function",),
            "one-mean-for-all-copies": ("density/stated[moments]",),
            "mean-no-number": ("density/stated[moments]",),
        },
    ),
    Specimen("circular", {"length-added": ("density/stated[moments]",)}),
    Specimen("bounded", {"copies-lose-a-bound": ("same/manner[expanded]",)}),
)
