"""Distribution functions where a support has ended, and samples that lie on its boundary."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.distributions import Distribution, Gumbel, constraints

import flowref
from flowref.checking import Settings
from flowref.model import Status

OUTSIDE, FINITE = "density/support[distribution-function]", "map/finite[samples]"
BETWEEN, BACK = "density/distribution-function", "sampling/quantiles"


class Half(Distribution):
    """The right half of a normal distribution, whose function may go on below zero."""

    arg_constraints = {}  # noqa: RUF012  # torch's own form
    support = constraints.nonnegative

    def __init__(self, cut: bool) -> None:
        self.cut = cut
        super().__init__(validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        return torch.randn(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        inside = math.log(2) - 0.5 * math.log(2 * math.pi) - 0.5 * value**2
        return torch.where(value >= 0, inside, torch.full_like(inside, -math.inf))

    def cdf(self, value: Any) -> Any:
        """The distribution function."""
        reached = torch.erf(value / math.sqrt(2))
        return reached.clamp(min=0) if self.cut else reached

    def icdf(self, value: Any) -> Any:
        """The quantile function."""
        return math.sqrt(2) * torch.erfinv(value)


class Relaxed(Distribution):
    """A relaxed coin, whose sigmoid may round to one."""

    arg_constraints = {}  # noqa: RUF012  # torch's own form
    support = constraints.unit_interval

    def __init__(self, cut: bool) -> None:
        self.cut, self.logit, self.temperature = cut, torch.tensor(-2.0), torch.tensor(0.1)
        super().__init__(validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        u = torch.rand(sample_shape).clamp(1e-6, 1 - 1e-6)
        drawn = torch.sigmoid((u.log() - (-u).log1p() + self.logit) / self.temperature)
        end = torch.finfo(drawn.dtype)
        return drawn.clamp(end.tiny, 1 - end.eps) if self.cut else drawn

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        rest = (-value).log1p()
        d = self.logit - (value.log() - rest) * self.temperature
        return self.temperature.log() + d - 2 * d.exp().log1p() - value.log() - rest


class Mirrored(Distribution):
    """A mirrored Gumbel variable, whose parts refuse what is far out."""

    arg_constraints = {}  # noqa: RUF012  # torch's own form
    support = constraints.real

    def __init__(self) -> None:
        self.base = Gumbel(*torch.tensor([0.0, 1.0], dtype=torch.float64))
        super().__init__(validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        return -self.base.sample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        return self.base.log_prob(-value)

    def cdf(self, value: Any) -> Any:
        """The distribution function."""
        return 1 - self.base.cdf(-value)

    def icdf(self, value: Any) -> Any:
        """The quantile function."""
        return -self.base.icdf(1 - value)


@pytest.mark.parametrize(
    ("make", "law", "status"),
    [
        (lambda: Half(True), OUTSIDE, Status.HOLDS),
        (lambda: Half(False), OUTSIDE, Status.ADVICE),
        (lambda: Relaxed(True), FINITE, Status.HOLDS),
        (lambda: Relaxed(False), FINITE, Status.VIOLATED),
        (Mirrored, BETWEEN, Status.HOLDS),
        (Mirrored, BACK, Status.HOLDS),
    ],
)
def test_ends_of_supports_are_looked_at(make: Any, law: str, status: Status) -> None:
    """A function that goes on where the support has ended, and samples without a log-density, are told;
    a part that refuses points far out ends no law.
    """
    torch.manual_seed(0)
    verdict = flowref.check(make(), law, Settings("standard", 0))
    assert verdict.status is status, verdict.reason
