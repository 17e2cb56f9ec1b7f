"""Log-dets that are estimated, and bounds beside samples: healthy ones are not accused, and terms of
another series, noise of another life and samples of another half are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.laws.bijection.log_det_estimate import (
    ESTIMATES,
    MORE,
    UNCLEAR,
    factor_of,
    factors,
    repeated_calls,
)
from flowref.laws.residual.series import partial_sums
from flowref.loading import load
from flowref.model import Batch, Status
from flowref.model.abilities import Living, offers
from flowref.registry import parse_target
from flowref_zoo.specimens.estimators import roulette, series, traced
from rows import DEEP, first_of

QUICK = Settings("quick")
SERIES = "map/log-det-unbiased[series]"
ONCE, OWN = "random/once-per-solve", "random/seeded[log-det]"


def test_partial_sums_converge_to_the_log_det() -> None:
    """Of a contraction beside the identity."""
    g = torch.tensor([[[0.3, -0.2], [0.1, 0.4]]], dtype=torch.float64)
    log_det = torch.linalg.slogdet(torch.eye(2, dtype=torch.float64) + g)[1]
    sums = partial_sums(g.numpy())
    assert sums[0] == pytest.approx(0.7)
    assert sums[-1] == pytest.approx(log_det.numpy(), abs=1e-12)


@pytest.mark.parametrize(
    ("make", "law"), [(series, SERIES), (roulette, SERIES), (traced, ONCE), (traced, OWN)]
)
def test_healthy_estimates_are_held(make: Any, law: str) -> None:
    """Whole or cut series, and one noise for each solve."""
    torch.manual_seed(0)
    assert check(make(), law, QUICK).status is Status.HOLDS


@DEEP
@pytest.mark.parametrize(
    ("make", "defect", "law"),
    [
        (series, "one-sign", SERIES),
        (series, "not-divided", SERIES),
        (roulette, "unweighted", SERIES),
        (roulette, "chance-of-stopping", SERIES),
        (traced, "fresh-noise", ONCE),
        (traced, "kept-noise", OWN),
    ],
)
def test_other_terms_and_other_noise_are_seen(make: Any, defect: str, law: str) -> None:
    """Without any promise that the estimate has no bias."""
    torch.manual_seed(0)
    telling = Status.ADVICE if law == ONCE else Status.VIOLATED
    assert check(make(defect), law, QUICK).status is telling


def test_more_estimates_are_each_another() -> None:
    """Where four dozen do not tell, those that are averaged instead count once each."""
    flow = load(parse_target("flowref_zoo.specimens.estimators:traced"))
    assert offers(flow, Living)
    batch = Batch(np.random.default_rng(0).standard_normal((3, *flow.event_shape)), None, 1)
    estimates = np.stack([np.asarray(out.ladj) for out in repeated_calls(flow, batch, MORE)])
    direction, everywhere = estimates.mean(0), np.ones(3, dtype=bool)
    # Of so small log-dets the factor is known to the first limit and a half.
    truth = direction * factor_of(estimates[:ESTIMATES], direction)[1] / (1.5 * UNCLEAR)
    found = factors(flow, "forward", batch, truth, everywhere)
    assert found.observed["mean of the estimates"] == pytest.approx(estimates.mean(0))
    assert found.observed["standard error"] == pytest.approx(factor_of(estimates, truth)[1])


class Augmented(nn.Module):
    """One number with noise beside it, mixed by a shear; a draw of the bound."""

    event_shape, lower_bound = (1,), True

    def __init__(self, other: int = 0) -> None:
        super().__init__()
        self.other = other
        self.shear = nn.Parameter(torch.tensor(0.7))

    def log_prob(self, x: Any) -> Any:
        """With standard normal noise."""
        noise = torch.randn_like(x)
        z = torch.cat([x / 1.5, noise + self.shear * x], 1)
        constant = 0.5 * math.log(2 * math.pi) + math.log(1.5)
        return 0.5 * (noise.square() - z.square().sum(1, keepdim=True))[:, 0] - constant

    def sample(self, n: int) -> Any:
        """The data, or by a bug the noise."""
        z = torch.randn(n, 2, dtype=self.shear.dtype)
        x = 1.5 * z[:, :1]
        return (x if not self.other else z[:, 1:] - self.shear * x).detach()


@pytest.mark.parametrize(("other", "status"), [(0, Status.HOLDS), (1, Status.VIOLATED)])
def test_samples_of_the_other_half_are_seen(other: int, status: Status) -> None:
    """The noise beside the data is distributed otherwise than the data are."""
    assert check(Augmented(other), "sampling/follows-bound", QUICK).status is status


class Probed(nn.Module):
    """A residual map, of which the log-det is estimated by products of random probes with its Jacobian;
    or exact, with a random number added.
    """

    event_shape = (2,)

    def __init__(self, probes: bool) -> None:
        super().__init__()
        self.probes = probes
        self.weight = nn.Parameter(torch.tensor([[0.01, 0.02], [-0.01, 0.015]]))

    def forward(self, x: Any) -> Any:
        """The log-det to first order, which is all there is of so small weights."""
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            g = torch.tanh(x @ self.weight)
            if not self.probes:
                slope = 1 - g.square()
                return x + g, (slope * self.weight.diagonal()).sum(1) + torch.randn(len(x)).to(x)
            e = torch.randn_like(x)
            (product,) = torch.autograd.grad(g, x, e, create_graph=True)
            return x + g, (product * e).sum(1)


def test_random_probes_are_seen_to_estimate() -> None:
    """A log-det that two calls estimate differently is no accusation, and the line says how it is
    judged.
    """
    instance = Probed(probes=True)
    verdict = check(instance, "same/history[repeat]", QUICK)
    assert verdict.status is Status.NOT_APPLICABLE
    assert "estimate" in verdict.reason
    assert check(instance, "map/log-det", QUICK).status is Status.NOT_APPLICABLE


def test_a_random_number_in_a_log_det_is_no_estimate() -> None:
    """Without a product with its Jacobian nothing is estimated: its results are random."""
    verdict = check(Probed(probes=False), "same/history[repeat]", QUICK)
    assert verdict.status is Status.VIOLATED


class ProbedDensity(nn.Module):
    """The same map within a log-density, which alone is shown."""

    event_shape = (2,)

    def __init__(self, probes: bool) -> None:
        super().__init__()
        self.inner = Probed(probes)

    def log_prob(self, x: Any) -> Any:
        """That of a normal base."""
        z, ladj = self.inner(x)
        return ladj - 0.5 * z.square().sum(1) - math.log(2 * math.pi)


@pytest.mark.parametrize(
    ("probes", "status"), [(True, Status.NOT_APPLICABLE), (False, Status.VIOLATED)]
)
def test_random_probes_in_a_log_density_are_seen_to_estimate(probes: bool, status: Status) -> None:
    """As in a log-det; a random number is none."""
    assert check(ProbedDensity(probes), "same/history[repeat]", QUICK).status is status


class Kinked(nn.Module):
    """A residual block of rectified units; gradients of its traces are estimated by draws of their own."""

    event_shape = (2,)
    promises = ("estimator",)

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.w = nn.Parameter(0.5 * torch.randn(64, 2, generator=generator))
        self.b = nn.Parameter(0.5 * torch.randn(64, generator=generator))
        self.v = nn.Parameter(0.05 * torch.randn(2, 64, generator=generator))

    def trace(self, x: Any) -> Any:
        """Of the Jacobian, by one draw."""
        draw = torch.randint(2, x.shape).to(x.dtype) * 2 - 1
        on = (x @ self.w.T + self.b > 0).to(x.dtype)
        return ((draw @ self.v) * on * (draw @ self.w.T)).sum(1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        value, graded = self.trace(x), self.trace(x)
        y = x + torch.relu(x @ self.w.T + self.b) @ self.v.T
        return y, value.detach() + graded - graded.detach()


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_kinks_between_the_points_of_a_difference_accuse_no_gradient(seed: int) -> None:
    """A unit that is switched within a step changes a trace by a jump, of which autograd knows nothing."""
    law = "gradient/parameters[log-det-estimate]"
    verdict = check(Kinked(), law, Settings("quick", seed))
    assert verdict.status in (Status.HOLDS, Status.INCONCLUSIVE), verdict.reason


class Untrained(nn.Module):
    """A field whose traces scatter, of many numbers, and no gradient of its log-det or of anything."""

    event_shape, estimator = (6,), True

    def __init__(self, values_follow: bool) -> None:
        super().__init__()
        self.values_follow = values_follow
        self.w = nn.Parameter(0.4 * torch.randn(6, 6))

    def forward(self, x: Any) -> Any:
        """Data to latents, by one step."""
        noise = torch.randn_like(x)
        with torch.enable_grad():
            at = x.detach().requires_grad_(True)
            step = 0.1 * torch.tanh(at @ self.w)
            (pulled,) = torch.autograd.grad(step, at, noise)
        y = x + 0.1 * torch.tanh(x @ self.w)
        return y if self.values_follow else y.detach(), (pulled * noise).sum(1).detach()


@pytest.mark.parametrize(
    ("values_follow", "expected"), [(True, Status.VIOLATED), (False, Status.NOT_APPLICABLE)]
)
def test_estimates_without_a_gradient_are_told_however_they_scatter(
    values_follow: bool, expected: Status
) -> None:
    """Of what has no gradient at all nothing is trained, as by flow matching, and nothing is said."""
    torch.manual_seed(0)
    verdict = check(Untrained(values_follow), "gradient/parameters[log-det-estimate]", QUICK)
    assert verdict.status is expected, verdict.reason


class Freeing(nn.Module):
    """A step whose trace frees the graph of its values in eval mode; in train mode, where it has one, the trace
    is detached or not.
    """

    event_shape, estimator = (5,), True

    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.w = nn.Parameter(0.4 * torch.randn(5, 5))

    def forward(self, x: Any) -> Any:
        """Data to latents, by one step."""
        noise = torch.randn_like(x)
        with torch.enable_grad():
            at = x if x.requires_grad else x.detach().requires_grad_(True)
            step = 0.2 * torch.tanh(at @ self.w)
            (pulled,) = torch.autograd.grad(step, at, noise, create_graph=self.training)
        told = (pulled * noise).sum(1)
        return x + step, told.detach() if self.detached else told


@pytest.mark.parametrize(
    ("detached", "expected"), [(True, Status.VIOLATED), (False, Status.NOT_APPLICABLE)]
)
def test_values_have_a_gradient_where_training_has_their_graph(
    detached: bool, expected: Status
) -> None:
    """What eval mode frees says nothing of training."""
    torch.manual_seed(0)
    verdict = check(Freeing(detached), "gradient/parameters[log-det-estimate]", QUICK)
    assert verdict.status is expected, verdict.reason


CONDUCT = (
    "same/history[other-calls]",
    "same/history[same-tensor]",
    "gradient/input[value]",
    "map/finite",
    "same/copied",
    "same/saved[reload]",
)


@pytest.mark.parametrize("law", CONDUCT)
def test_what_an_estimate_draws_is_held_where_calls_are_compared(law: str) -> None:
    """Laws that repeat a call in one random state speak of estimates, and accuse no healthy one."""
    torch.manual_seed(0)
    assert check(roulette(), law, QUICK).status is Status.HOLDS


class Remembering(nn.Module):
    """An estimate of which the values remember the point that was asked for last; or that draws
    from a generator of its own, or of which the values are drawn too.
    """

    event_shape, estimator = (2,), True

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug
        self.weight = nn.Parameter(torch.tensor(0.3))
        self.last = torch.zeros(())
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Any) -> Any:
        """A stretch of which the log-det is off by noise of mean zero."""
        before, self.last = self.last, x.detach()[0, 0].clone()
        own = self.generator if self.bug == "own" else None
        noise = torch.randn(len(x), generator=own, dtype=x.dtype)
        z = x * self.weight.exp()
        if self.bug == "last":
            z = z + 0.1 * before
        if self.bug == "values":
            z = z + 0.1 * torch.randn((), dtype=x.dtype)
        return z, 2 * self.weight + noise


def test_an_estimate_that_remembers_is_accused() -> None:
    """Its values depend on calls before, whatever its log-det draws."""
    assert check(Remembering("last"), "same/history[other-calls]", QUICK).status is Status.VIOLATED


def test_noise_of_a_generator_of_its_own_is_held() -> None:
    """A generator that an object holds is set back with the global ones."""
    assert check(Remembering("own"), "same/history[other-calls]", QUICK).status is Status.HOLDS


@pytest.mark.parametrize(
    ("bug", "status"), [("", Status.NOT_APPLICABLE), ("values", Status.VIOLATED)]
)
def test_values_that_are_drawn_are_no_estimate(bug: str, status: Status) -> None:
    """A promise about log-dets excuses noise in these, and in nothing else."""
    verdict = check(Remembering(bug), "same/history[repeat]", QUICK)
    assert verdict.status is status
    assert not verdict.blocked


def test_laws_of_each_number_are_not_about_drawn_log_dets() -> None:
    """That one estimate is the log-det has no meaning: it waits for nothing, and its mean is judged."""
    verdict = check(series(), "map/log-det", QUICK)
    assert verdict.status is Status.NOT_APPLICABLE
    assert not verdict.blocked
    assert "map/log-det[estimate]" in verdict.reason
