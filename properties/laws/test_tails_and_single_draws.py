"""Gradients in the tails, which are chosen by torch.where, and samples that are drawn one at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, loading
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Tails(nn.Module):
    r"""$z = w x$, by a formula up to a bound that has a root which is not real beyond; there it is not chosen."""

    event_shape = (3,)
    bound = 3.0

    def __init__(self, safe: bool, rooted: bool) -> None:
        super().__init__()
        self.safe, self.rooted = safe, rooted
        self.weight = nn.Parameter(torch.tensor(1.5))

    def by_parts(self, v: Any) -> Any:
        """The number itself."""
        within = v.abs() < self.bound
        inside = torch.where(within, v, torch.zeros_like(v)) if self.safe else v
        root = torch.sqrt(self.bound - inside) if self.rooted else inside
        formula = self.bound - root**2 if self.rooted else inside
        return torch.where(within, formula, v)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.by_parts(self.weight * x), 3 * self.weight.abs().log().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.by_parts(z) / self.weight, -3 * self.weight.abs().log().expand(len(z))


@pytest.mark.parametrize("law", ["gradient/finite", "gradient/finite[inverse]"])
@pytest.mark.parametrize(
    ("safe", "rooted", "status"),
    [
        (False, True, Status.VIOLATED),
        (True, True, Status.HOLDS),
        (False, False, Status.HOLDS),
    ],
)
def test_a_nan_in_the_tails(law: str, safe: bool, rooted: bool, status: Status) -> None:
    """A branch that is not chosen beyond a bound of three has no finite gradient there, unless it is given another point."""
    target = loading.snapshot(Tails(safe, rooted))
    assert checking.pair_verdict(target, law, QUICK, written=False).status is status


class Modes(nn.Module):
    """A mixture of three normal distributions."""

    event_shape = (2,)

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self.counted = counted
        self.loc = nn.Parameter(torch.tensor([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.5]]))

    @property
    def modes(self) -> Any:
        """The distribution."""
        which = torch.distributions.Categorical(torch.ones(3, dtype=self.loc.dtype))
        of = torch.distributions.Independent(torch.distributions.Normal(self.loc, 1.0), 1)
        return torch.distributions.MixtureSameFamily(which, of)

    def log_prob(self, x: Any) -> Any:
        """Log-densities."""
        return self.modes.log_prob(x)

    def sample(self, n: int) -> Any:
        """Samples, by the modes that were drawn, or that there are."""
        drawn = torch.randint(3, (n,))
        hot = nn.functional.one_hot(drawn, -1 if self.counted else 3).to(self.loc.dtype)
        return (hot[..., None] * self.loc).sum(1) + torch.randn(n, 2, dtype=self.loc.dtype)


@pytest.mark.parametrize("counted", [False, True])
def test_one_sample_at_a_time(counted: bool) -> None:
    """One sample is drawn of any mode: as many modes as the largest that was drawn are not all."""
    target = loading.snapshot(Modes(counted))
    verdict = checking.pair_verdict(
        target, "shape/one-number-per-point[samples]", QUICK, written=False
    )
    assert verdict.status is (Status.VIOLATED if counted else Status.HOLDS)
