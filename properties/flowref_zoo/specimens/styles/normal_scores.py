"""Normal scores of marginals: arrays in, arrays out, by the distributions of scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

from flowref_zoo.specimens.specimen import Specimen


class NormalScores:
    r"""$z_i = \Phi^{-1}(F_i(x_i))$ with a Student and a logistic marginal; ladj
    $\sum_i \log f_i(x_i) - \log \phi(z_i)$. In the upper tails $F$ is close to 1, and all that
    rounding leaves of a point is little.
    """

    features = 2

    def __init__(self, defect: str = "") -> None:
        self.defect = defect
        self.marginals = [stats.t(df=5, loc=0.3, scale=1.4), stats.logistic(loc=-1.0, scale=0.7)]

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to scores."""
        columns = [each.cdf(x[..., i]) for i, each in enumerate(self.marginals)]
        z = stats.norm.ppf(np.stack(columns, -1))
        return z, self.densities(x) - self.normal(z)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Scores to data."""
        u = special.ndtr(z)
        if self.defect == "upside-down":
            u = np.stack([u[..., 0], 1 - u[..., 1]], -1)
        x = np.stack([each.ppf(u[..., i]) for i, each in enumerate(self.marginals)], -1)
        return x, stats.norm.logpdf(z).sum(-1) - self.densities(x)

    def densities(self, x: Any) -> Any:
        """The log-densities of the marginals, added up."""
        terms = np.stack([each.logpdf(x[..., i]) for i, each in enumerate(self.marginals)], -1)
        return terms[..., 0] if self.defect == "one-marginal" else terms.sum(-1)

    def normal(self, z: Any) -> Any:
        """The log-density of the scores."""
        return 0.0 if self.defect == "scores-forgotten" else stats.norm.logpdf(z).sum(-1)


def normal_scores(defect: str = "") -> NormalScores:
    """Two marginals."""
    return NormalScores(defect)


LOG_DETS = ("map/log-det[antisymmetry]", "map/log-det[differences]")
SPECIMENS = (
    Specimen(
        "normal_scores",
        {
            "upside-down": ("map/inverse[latents]",),
            "one-marginal": LOG_DETS,
            "scores-forgotten": LOG_DETS,
        },
    ),
)
