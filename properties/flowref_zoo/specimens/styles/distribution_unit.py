"""A distribution of torch.distributions on the unit interval, with quantiles and moments."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from flowref_zoo.specimens.specimen import Specimen


class Kumaraswamy(Distribution):
    """$F(x) = 1 - (1 - x^a)^b$ on $(0, 1)$."""

    arg_constraints: ClassVar[Any] = {"a": constraints.positive, "b": constraints.positive}
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(self, a: Any, b: Any, validate_args: Any = None, defect: str = "") -> None:
        self.a, self.b = broadcast_all(a, b)
        self.defect = defect
        if defect == "support":
            self.support = constraints.positive
        super().__init__(self.a.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(torch.Size(sample_shape))
        u = torch.rand(shape, dtype=self.a.dtype, device=self.a.device)
        if self.defect == "rsample-detach":
            with torch.no_grad():
                return self.icdf(u)
        return self.icdf(u)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        k = self.a if self.defect == "a-minus" else self.a - 1
        t = torch.log(1 - x**self.a) if self.defect == "log1p" else torch.log1p(-(x**self.a))
        lb = 0 if self.defect == "no-log-b" else self.b.log()
        return self.a.log() + lb + k * x.log() + (self.b - 1) * t

    def cdf(self, x: Any) -> Any:
        if self.defect == "cdf-tail":
            return 1 - (1 - x**self.a)
        return -torch.expm1(self.b * torch.log1p(-(x**self.a)))

    def icdf(self, u: Any) -> Any:
        a, b = (self.b, self.a) if self.defect == "icdf-swap" else (self.a, self.b)
        return (-torch.expm1(torch.log1p(-u) / b)) ** (1 / a)

    def _moment(self, n: Any) -> Any:
        return self.b * torch.exp(
            torch.lgamma(1 + n / self.a)
            + torch.lgamma(self.b)
            - torch.lgamma(1 + n / self.a + self.b)
        )

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def variance(self) -> Any:
        return self._moment(2) - (0 if self.defect == "var" else self._moment(1) ** 2)


def distribution_unit(defect: str = "") -> Any:
    return Kumaraswamy(torch.tensor(2.0), torch.tensor(3.5), defect=defect)


SPECIMENS = (
    Specimen(
        "distribution_unit",
        {
            "a-minus": ("density/mass",),
            "icdf-swap": ("sampling/follows-density[ratios]",),
            "cdf-tail": ("sampling/quantiles",),
            "no-log-b": ("density/mass",),
            "var": ("density/stated[moments]",),
            "rsample-detach": ("gradient/of-samples[graph]",),
            "support": ("sampling/quantiles",),
        },
    ),
)
