"""What excuses is no violation, and what is no excuse is one: a row for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from flowref import checking, loading
from flowref.checking import Settings
from flowref.model import Condition, Status


class Decreasing(nn.Module):
    """A decreasing map, whose log-det takes the logarithm of its slope without a sign, or with it."""

    event_shape = (2,)

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self.signed, self.scale = signed, nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """x to -2 x."""
        slope = -self.scale if self.signed else self.scale
        return -self.scale * x, 2 * torch.log(slope).expand(len(x))


class Refusing(nn.Module):
    """tanh, whose inverse refuses its ends, which rounding reaches far out, or everything."""

    event_shape = (2,)

    def __init__(self, everywhere: bool = False) -> None:
        super().__init__()
        self.everywhere = everywhere

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Numbers to (-1, 1)."""
        return torch.tanh(x), 2 * (0.6931471805599453 - x - nn.functional.softplus(-2 * x)).sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Back."""
        if self.everywhere or bool((z.abs() >= 1).any()):
            raise ValueError("atanh needs numbers in (-1, 1)")
        return torch.atanh(z), -torch.log1p(-(z**2)).sum(-1)


class Recomputed(nn.Module):
    """A batch norm whose forward may run once more on the way back."""

    event_shape = (3,)

    def __init__(self, recomputed: bool) -> None:
        super().__init__()
        self.recomputed, self.norm = recomputed, nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        """Normalized."""
        if self.recomputed and self.training and torch.is_grad_enabled():
            return checkpoint(self.norm, x, use_reentrant=False)
        return self.norm(x)


class Spread(nn.Module):
    """A normal density of positive or of negative variance, as it tells."""

    event_shape = ()

    def __init__(self, variance: float) -> None:
        super().__init__()
        self.told, self.loc = variance, nn.Parameter(torch.tensor(0.0))

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance, as it tells."""
        return self.told * torch.ones_like(self.loc)

    def log_prob(self, x: Any) -> Any:
        """Standard normal."""
        return torch.distributions.Normal(self.loc, 1.0).log_prob(x)

    def sample(self, shape: Any = ()) -> Any:
        """Draw."""
        return torch.randn(tuple(shape)) + self.loc.detach()


class Drawing(nn.Module):
    """A normal density that draws from a generator of its own, also where it looks at a point."""

    event_shape = (2,)

    def __init__(self, jitter: float) -> None:
        super().__init__()
        self.jitter, self.loc = jitter, nn.Parameter(torch.zeros(2))
        self.generator = torch.Generator().manual_seed(5)

    def __deepcopy__(self, memo: Any) -> Drawing:
        new = type(self)(self.jitter).to(self.loc.dtype)
        new.load_state_dict(self.state_dict())
        new.generator.set_state(self.generator.get_state())
        return new.train(self.training)

    def log_prob(self, x: Any) -> Any:
        """Standard normal."""
        noise = torch.rand(x.shape, dtype=x.dtype, generator=self.generator)
        return torch.distributions.Normal(self.loc, 1.0).log_prob(x + self.jitter * noise).sum(-1)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Draw."""
        return self.loc + torch.randn(n, 2, dtype=self.loc.dtype, generator=self.generator)


HELD, BROKEN = Status.HOLDS, Status.VIOLATED
ROWS: list[tuple[Callable[[], nn.Module], str, Status]] = [
    # A log-det that is no number at any ordinary point is no estimate, and no domain excuses it.
    (lambda: Decreasing(signed=True), "map/finite", BROKEN),
    (lambda: Decreasing(signed=True), "map/log-det", BROKEN),
    (lambda: Decreasing(signed=False), "map/finite", HELD),
    # A refusal far out, where rounding takes an image out of the range, is like a value that is not finite.
    (Refusing, "map/log-det[antisymmetry]", HELD),
    (Refusing, "map/inverse", HELD),
    # Statistics move once for a batch, and not on the way back.
    (lambda: Recomputed(recomputed=True), "effects/state[parameters]", BROKEN),
    (lambda: Recomputed(recomputed=False), "effects/state[parameters]", HELD),
    # A number that no distribution has needs no integral.
    (lambda: Spread(-1.0), "density/stated[moments]", BROKEN),
    (lambda: Spread(1.0), "density/stated[moments]", HELD),
    # A generator of its own is state: it is set back as the global one is.
    *(
        (lambda: Drawing(0.0), law, HELD)
        for law in ("same/history[other-calls]", "same/saved[restore]", "same/copied[independence]")
    ),
    (lambda: Drawing(0.0), "random/rows-independent[duplicates]", HELD),
    (lambda: Drawing(0.05), "same/history[repeat]", BROKEN),
]


@pytest.mark.parametrize(("made", "law", "status"), ROWS)
def test_an_excuse_is_of_what_it_excuses(
    made: Callable[[], nn.Module], law: str, status: Status
) -> None:
    """The healthy twin holds, and what is wrong is told."""
    verdict = checking.pair_verdict(loading.snapshot(made()), law, Settings(), written=False)
    assert verdict.status is status, verdict.reason


def test_what_is_no_number_is_no_estimate() -> None:
    """Two calls that return nan return the same."""
    subject = loading.load(loading.snapshot(Decreasing(signed=True)), Condition())
    assert not subject.promises.get("estimator")
