"""Distributions of vectors, written by hand, that tell moments of themselves."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch.distributions import Distribution, constraints

from flowref_zoo.specimens.specimen import Specimen


class FactorNormal(Distribution):
    """A normal density whose covariance is W W' and a diagonal."""

    support = constraints.real_vector
    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = True

    def __init__(self, loc: Any, factors: Any, noise: Any, defect: str = "") -> None:
        self.loc, self.factors, self.noise, self.defect = loc, factors, noise, defect
        super().__init__(torch.Size(), loc.shape, validate_args=False)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc[0].expand_as(self.loc) if self.defect == "first-mean" else self.loc

    @property
    def mode(self) -> Any:
        """The mode."""
        return torch.zeros_like(self.loc) if self.defect == "mode-at-zero" else self.loc

    @property
    def variance(self) -> Any:
        """The variance of each entry."""
        shared = self.factors.square().sum(-1)
        return shared if self.defect == "noise-left-out" else shared + self.noise

    @property
    def stddev(self) -> Any:
        """The deviation of each entry."""
        return self.variance if self.defect == "deviation-squared" else self.variance.sqrt()

    @property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        shared = self.factors @ self.factors.T
        if self.defect == "covariance-of-diagonal":
            shared = torch.diag(shared.diagonal())
        return shared + torch.diag(self.noise)

    def _small(self) -> Any:
        """What remains of the determinant and of the inverse: one row for each factor."""
        weighted = self.factors / self.noise[:, None]
        eye = torch.eye(self.factors.shape[1], dtype=weighted.dtype, device=weighted.device)
        return eye + self.factors.T @ weighted

    def _log_det(self) -> Any:
        return self.noise.log().sum() + torch.logdet(self._small())

    def log_prob(self, value: Any) -> Any:
        """The log-density."""
        away = value - self.loc
        weighted = away / self.noise
        seen = weighted @ self.factors
        shared = torch.linalg.solve(self._small(), seen.unsqueeze(-1)).squeeze(-1)
        square = (away * weighted).sum(-1) - (seen * shared).sum(-1)
        return -0.5 * (square + self._log_det() + len(self.loc) * math.log(2 * math.pi))

    def entropy(self) -> Any:
        """The differential entropy."""
        each = math.log(2 * math.pi) + (0 if self.defect == "entropy-without-exponent" else 1)
        return 0.5 * (self._log_det() + len(self.loc) * each)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw."""
        shape = tuple(sample_shape)
        like = {"dtype": self.loc.dtype}
        common = torch.randn(*shape, self.factors.shape[1], **like)
        own = torch.randn(*shape, len(self.loc), **like)
        return self.loc + common @ self.factors.T + own * self.noise.sqrt()


def factors(defect: str = "") -> Any:
    """Three entries that share two factors."""
    loc = torch.tensor([0.4, -1.2, 0.7])
    shared = torch.tensor([[0.9, -0.3], [0.2, 0.8], [-0.6, 0.5]])
    return FactorNormal(loc, shared, torch.tensor([0.3, 0.5, 1.1]), defect)


SPECIMENS = (
    Specimen(
        "factors",
        {
            "first-mean": ("density/stated[sample-moments]",),
            "noise-left-out": ("density/stated[sample-moments]",),
            "covariance-of-diagonal": ("density/stated[sample-moments]",),
            "entropy-without-exponent": ("density/stated[sample-moments]",),
            "mode-at-zero": ("density/stated[mode]",),
            "deviation-squared": ("density/stated[deviation]",),
        },
    ),
)
