"""A skewed logistic distribution of torch.distributions, with mean and entropy."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.distributions import Distribution, constraints

from flowref_zoo.specimens.specimen import Specimen


class SkewLogistic(Distribution):
    r"""$F(x) = (1 + e^{-u})^{-k}$ with $u = (x - \mu) / s$."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "k": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, k: Any, validate_args: Any = None, defect: str = ""
    ) -> None:
        self.loc, self.scale, self.k = torch.broadcast_tensors(loc, scale, k)
        self.defect = defect
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = type(self).__new__(type(self))
        bs = torch.Size(batch_shape)
        new.defect = self.defect
        new.loc, new.k = self.loc.expand(bs), self.k.expand(bs)
        new.scale = (
            torch.ones(bs, dtype=self.loc.dtype, device=self.loc.device)
            if self.defect == "expand"
            else self.scale.expand(bs)
        )
        super(SkewLogistic, new).__init__(bs, validate_args=False)
        return new

    def _sp(self, u: Any) -> Any:
        return (
            torch.log(1 + torch.exp(-u))
            if self.defect == "naive"
            else torch.nn.functional.softplus(-u)
        )

    def log_prob(self, x: Any) -> Any:
        u = (x - self.loc) / self.scale
        return self.k.log() - self.scale.log() - u - (self.k + 1) * self._sp(u)

    def cdf(self, x: Any) -> Any:
        c = torch.exp(-self.k * self._sp((x - self.loc) / self.scale))
        return 1 - c if self.defect == "cdf-sign" else c

    def icdf(self, p: Any) -> Any:
        lp = p.log() / self.k
        u = lp - torch.log(-torch.expm1(lp))
        return self.loc + u * (1 if self.defect == "sample-scale" else self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = torch.rand(self._extended_shape(torch.Size(sample_shape)), dtype=self.loc.dtype).clamp(
            min=1e-300
        )
        return self.icdf(u)

    @property
    def mean(self) -> Any:
        if self.defect == "mean":
            return self.loc
        return self.loc + self.scale * (
            torch.digamma(self.k) - torch.digamma(torch.ones_like(self.k))
        )

    def entropy(self) -> Any:
        h = (
            -self.k.log()
            + torch.digamma(self.k + 1) * 0
            + (1 + 1 / self.k)
            + torch.digamma(self.k)
            - torch.digamma(torch.ones_like(self.k))
        )
        return h if self.defect == "entropy" else h + self.scale.log()


def distribution_skewed(defect: str = "") -> Any:
    t = torch.tensor
    return SkewLogistic(t(0.5), t(1.7), t(2.5), defect=defect)


SPECIMENS = (
    Specimen(
        "distribution_skewed",
        {
            "sample-scale": ("sampling/follows-density[ratios]",),
            "cdf-sign": ("sampling/quantiles",),
            "entropy": ("density/stated[moments]",),
            "mean": ("density/stated[moments]",),
            "expand": ("same/manner[expanded]",),
            "naive": ("map/finite-far-out[log-prob]",),
        },
    ),
)
