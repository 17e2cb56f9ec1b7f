"""Log-dets that are estimated are no series that are broken off, whatever numbers an object holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import flowref
from flowref.adapters.user.conventions.series import ESTIMATE, Series, rule_of
from rows import first_of

NAMES = ("n_terms", "n_power_series", "n_iterations", "max_iter", "order", "trace_terms")


class Residual(nn.Module):
    """x -> x + x A^T / 2 with the log-det as a series, of a trace or of an estimate of it."""

    n_terms: int

    def __init__(self, drawn: bool) -> None:
        super().__init__()
        self.drawn = drawn
        self.matrix = nn.Parameter(0.6 * torch.eye(5) + 0.1)
        for number, name in enumerate(NAMES):
            setattr(self, name, 4 + number)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The value and its log-det, of n_terms terms."""
        x = x.requires_grad_()
        branch = 0.5 * x @ self.matrix.T
        whole = [one.expand(len(x), 5) for one in torch.eye(5)]
        probes = [torch.randn_like(x)] if self.drawn else whole
        ladj = torch.zeros(len(x))
        for probe in probes:
            product = probe
            for k in range(1, self.n_terms + 1):
                (product,) = torch.autograd.grad(branch, x, product, retain_graph=True)
                ladj = ladj - (-1) ** k * (product * probe).sum(1) / k
        return x + branch, ladj


def call(obj: Any, x: Any, context: Any = None) -> Any:
    """As a dialect calls it."""
    return obj(x.clone())


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_an_estimate_is_no_series_that_more_terms_settle(seed: int) -> None:
    """Its log-dets come closer to each other by accident; judged as a series it was accused of what it
    draws.
    """
    torch.manual_seed(seed)
    flow, x = Residual(drawn=True), torch.randn(3, 5)
    assert rule_of(flow, x, None, call, searched=True) == ESTIMATE


def test_the_same_series_of_exact_traces_is_one() -> None:
    """By the number that adds terms, and by no other."""
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    series = rule_of(Residual(drawn=False), x, None, call, searched=True)
    assert isinstance(series, Series)
    assert (series.name, series.terms) == ("n_terms", 4)
    assert not rule_of(Residual(drawn=False), x, None, call, searched=False)


class Shared(nn.Module):
    """x -> x A^T with the logarithms of its slopes estimated by one probe of two signs for all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[0.2, 0.5], [-0.1, 0.3]]))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The value, and an estimate of the trace of the matrix."""
        x = x.requires_grad_()
        probe = (2.0 * torch.randint(0, 2, (1, 2)) - 1.0).expand_as(x)
        velocity = x @ self.matrix.T
        (product,) = torch.autograd.grad(velocity, x, probe, create_graph=True)
        return velocity, (product * probe).sum(1)


@pytest.mark.parametrize("seed", first_of(range(8)))
def test_probes_of_two_signs_that_all_rows_share_are_an_estimate(seed: int) -> None:
    """Half of all pairs of calls agree; where the first two did what was drawn was accused."""
    torch.manual_seed(seed)
    assert rule_of(Shared(), torch.randn(3, 2), None, call, searched=True) == ESTIMATE


@pytest.mark.parametrize("promised", [True, False])
def test_what_is_promised_is_not_asked_for(promised: bool) -> None:
    """That the mean of its estimates is the log-det, which the target's line proposes else."""
    flow: Any = Shared()
    flow.event_shape = (2,)
    flow.promises = ("unbiased-log-det",) if promised else ()
    report = flowref.audit(flow, laws=["dtype/follows"], profile="quick")
    (recognized,) = report.recognized.values()
    assert any("unbiased-log-det" in one for one in recognized.conventions) is not promised
    assert any("estimated with random probes" in one for one in recognized.conventions)
