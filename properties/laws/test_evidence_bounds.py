"""Lower bounds that stand beside a log-density: which are read, and what a law says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowref import check
from flowref.laws.density.evidence_bound import compared
from flowref.model import Status
from flowref_zoo.specimens.evidence import Explained

LAW = "density/evidence-bound"


class Weighted(Explained):
    """A bound with a weight of its divergence, which bounds nothing."""

    beta = 0.1

    def elbo(self, x: Any, beta: float = 0.1) -> Any:
        """The bound, with a tenth of the divergence."""
        mean, deviation = self.posterior(x)
        rest = 0.5 * (mean**2 + deviation**2 - 1 - 2 * deviation.log()).sum(-1)
        return super().elbo(x) + (1 - beta) * rest


class Loss(Explained):
    """Minus the bound, which is minimized."""

    def elbo(self, x: Any) -> Any:
        """The loss."""
        return -super().elbo(x)


class Averaged(Explained):
    """The bound of a batch, one number."""

    def elbo(self, x: Any) -> Any:
        """The mean."""
        return super().elbo(x).mean()


@pytest.mark.parametrize(
    ("flow", "status"),
    [
        (Explained(), Status.HOLDS),
        (Explained("divergence-sign"), Status.VIOLATED),
        (Explained("constant-missing"), Status.VIOLATED),
        (Weighted(), Status.NOT_APPLICABLE),
        (Averaged(), Status.NOT_APPLICABLE),
        (Loss(), Status.INCONCLUSIVE),
    ],
    ids=lambda one: "-".join((type(one).__name__, getattr(one, "defect", ""))),
)
def test_a_lower_bound_is_compared_with_the_log_density(flow: Any, status: Status) -> None:
    """Of a bound with its own method the mean is not above the log-density; what weights a divergence, is one
    number for a batch, or is minus a bound, is not judged.
    """
    assert check(flow, LAW).status is status


def test_a_heavy_tail_is_no_violation() -> None:
    """Means of a bound that is seldom very low are too high in most samples of draws."""
    values = 20 - np.random.default_rng(0).uniform(size=(1, 4096)) ** -0.8
    found = compared(values, np.zeros(1))
    assert found.violates
    assert found.doubt
