"""Samples that come with their log-densities."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Shifted(nn.Module):
    """A normal density about its context; ``off``: what its samples' log-densities lack."""

    event_shape, context_shape = (3,), (3,)

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.scale, self.off = nn.Parameter(torch.tensor(1.3)), off

    def log_prob(self, x: Any, context: Any) -> Any:
        """The log-density."""
        return torch.distributions.Normal(context, self.scale).log_prob(x).sum(-1)

    def sample_and_log_prob(self, n: int, context: Any) -> Any:
        """Samples at each context, with their log-densities."""
        about = context.repeat_interleave(n, 0)
        x = about + self.scale.detach() * torch.randn_like(about)
        beside = self.log_prob(x, about) - self.off
        return x.view(len(context), n, 3), beside.view(len(context), n)


@pytest.mark.parametrize(("off", "status"), [(0.0, Status.HOLDS), (0.5, Status.VIOLATED)])
def test_each_context_has_its_own(off: float, status: Status) -> None:
    """Samples for each of several contexts are judged by their own log-densities."""
    assert (
        check(Shifted(off), "density/change-of-variables[samples]", Settings("quick")).status
        is status
    )


class Conditional(nn.Module):
    """The same under other names of shapes, with an axis of draws in front; ``mixed``: of which draws are handed to
    other conditions.
    """

    input_shape, condition_shape = (3,), (3,)

    def __init__(self, mixed: bool = False) -> None:
        super().__init__()
        self.scale, self.mixed = nn.Parameter(torch.tensor(1.3)), mixed

    def log_prob(self, x: Any, condition: Any) -> Any:
        """The log-density."""
        return torch.distributions.Normal(condition, self.scale).log_prob(x).sum(-1)

    def sample_and_log_prob(self, shape: Any, condition: Any) -> Any:
        """Samples (n, conditions, 3), with their log-densities."""
        (n,) = shape
        x = condition + self.scale.detach() * torch.randn(n, *condition.shape)
        beside = self.log_prob(x, condition)
        if self.mixed:  # a reshape in the place of a transposition
            x, beside = x.transpose(0, 1).reshape(x.shape), beside.T.reshape(beside.shape)
        return x, beside


@pytest.mark.parametrize(("mixed", "status"), [(False, Status.HOLDS), (True, Status.VIOLATED)])
def test_draws_of_a_context_stand_at_it(mixed: bool, status: Status) -> None:
    """Several draws of each of several contexts show whether they lie in the order of these; the attributes
    that say the shapes of events and contexts are read.
    """
    law = "density/change-of-variables[samples]"
    assert check(Conditional(mixed), law, Settings("quick")).status is status


class Spread(nn.Module):
    """A normal density about its context, with samples (n, contexts, 3); or of another spread than told."""

    event_shape, context_shape = (3,), (3,)

    def __init__(self, spread: float = 1.3) -> None:
        super().__init__()
        self.scale, self.spread = nn.Parameter(torch.tensor(1.3)), spread

    def log_prob(self, x: Any, context: Any) -> Any:
        """The log-density."""
        return torch.distributions.Normal(context, self.scale).log_prob(x).sum(-1)

    def sample(self, n: int, context: Any) -> Any:
        """So many for each context."""
        noise = torch.randn(n, *context.shape, dtype=context.dtype)
        return context + self.spread * noise


@pytest.mark.parametrize(("spread", "status"), [(1.3, Status.HOLDS), (1.6, Status.VIOLATED)])
def test_points_may_come_before_contexts(spread: float, status: Status) -> None:
    """Of samples for each of several contexts either axis may be the first."""
    assert check(Spread(spread), "sampling/follows-density").status is status
