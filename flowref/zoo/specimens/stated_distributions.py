"""Distributions written by hand that tell moments of themselves, and copies."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch.distributions import (
    AffineTransform,
    Categorical,
    Distribution,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
    constraints,
)

from flowref.zoo.specimens.specimen import Specimen


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
        u = torch.rand(part.shape, dtype=self.loc.dtype) - 0.5
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


def numbers(*values: float) -> Any:
    """A tensor in double precision."""
    return torch.tensor(values, dtype=torch.float64)


def laplace_mixture(defect: str = "") -> Distribution:
    """Three parts of other widths."""
    return LaplaceMixture(
        numbers(0.2, -0.5, 0.8), numbers(-3, 0.5, 2), numbers(0.4, 0.7, 1.2), defect
    )


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
            "mean-not-weighted": ("density/stated-moments",),
            "variance-within": ("density/stated-moments",),
            "upper-half-of-cdf": ("density/distribution-function",),
        },
    ),
    Specimen("circular", {"length-added": ("density/stated-moments",)}),
    Specimen("bounded", {"copies-lose-a-bound": ("density/expanded",)}),
)
