"""A solver whose noise is drawn anew at each evaluation does not end, and is not waited for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check, loading
from flowref.checking import Settings
from flowref.loading import endless_solvers
from flowref.loading.recipe import recipe_of
from flowref.model import Status
from flowref.registry import parse_target

odeint: Any = pytest.importorskip("torchdiffeq").odeint

LAW = "random/once-per-solve"


class Adaptive(nn.Module):
    """A continuous flow in Heun's steps, each as long as an error estimate lets it be."""

    event_shape, estimator = (2,), True

    def __init__(self, fresh: bool, tol: float) -> None:
        super().__init__()
        self.fresh, self.tol = fresh, tol
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

    def rate(self, t: float, x: Any, noise: Any) -> tuple[Any, Any]:
        """The velocity, and the estimate of its divergence."""
        noise = torch.randn_like(x) if self.fresh else noise
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_(True)
            time = torch.full_like(x[:, :1], t)
            v = self.second(torch.tanh(self.first(torch.cat([x, time], 1))))
            pulled = torch.autograd.grad(v, x, noise, create_graph=True)[0]
        return v, (pulled * noise).sum(1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise, ladj, t, h = torch.randn_like(x), torch.zeros_like(x[:, 0]), 0.0, 0.125
        while t < 1 - 1e-12:
            h = min(h, 1 - t)
            v, d = self.rate(t, x, noise)
            w, e = self.rate(t + h, x + h * v, noise)
            off = h / 2 * max(float((w - v).abs().max()), float((e - d).abs().max()))
            if off <= self.tol:
                t, x, ladj = t + h, x + h / 2 * (v + w), ladj + h / 2 * (d + e)
            h *= min(2.0, max(0.2, 0.9 * (self.tol / (off + 1e-300)) ** 0.5))
        return x, ladj


class Halved(Adaptive):
    """The same in two hundred steps of one length, which end whatever is drawn."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise, ladj = torch.randn_like(x), torch.zeros_like(x[:, 0])
        for index in range(200):
            v, d = self.rate(index / 200, x, noise)
            x, ladj = x + v / 200, ladj + d / 200
        return x, ladj


class Handed(Adaptive):
    """Steps that torchdiffeq chooses, of what does not say that it estimates."""

    estimator = False

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.between(x, 0.0, 1.0)

    def between(self, x: Any, start: float, end: float) -> tuple[Any, Any]:
        """From one time to another."""
        noise, times = torch.randn_like(x), torch.tensor([start, end], dtype=x.dtype)

        def field(t: Any, state: Any) -> Any:
            return self.rate(float(t), state[0], noise)

        state = x, torch.zeros_like(x[:, 0])
        value, ladj = odeint(field, state, times, rtol=self.tol, atol=self.tol, method="dopri5")
        return value[-1], ladj[-1]


class ThereAndBack(Handed):
    """The same with a way back, whose noise is another."""

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.between(z, 1.0, 0.0)


def handed(fresh: bool = False) -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Handed(fresh, 1e-5)


def there_and_back() -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return ThereAndBack(False, 1e-5)


def adaptive(fresh: bool = False, tol: float = 1e-4) -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Adaptive(fresh, tol)


def halved(fresh: bool = False) -> nn.Module:
    """With weights of one seed."""
    torch.manual_seed(0)
    return Halved(fresh, 0.0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer operations are waited for, so that it takes no seconds."""
    monkeypatch.setattr(endless_solvers, "MOST", 8000)
    loading.forget()


def facts(target: str) -> Any:
    """What loading found."""
    return recipe_of(parse_target(f"{__name__}:{target}")).facts


@pytest.mark.parametrize(
    "target", ["adaptive?fresh=True&tol=1e-4", "adaptive?fresh=True&tol=1e-6", "handed?fresh=True"]
)
def test_what_does_not_end_is_cut_short(target: str) -> None:
    """It says so, and offers no call."""
    assert "forward was stopped after 8000 operations" in facts(target).unended
    assert loading.load(parse_target(f"{__name__}:{target}")).forward is None


@pytest.mark.parametrize("target", ["adaptive", "handed", "halved", "halved?fresh=True"])
def test_what_ends_is_called(target: str) -> None:
    """Noise of one solve, or steps of one length."""
    assert not facts(target).unended


def test_steps_that_follow_an_estimate_are_no_draws_of_a_layer() -> None:
    """Values differ from draw to draw by the error of the steps alone: the log-det is an estimate."""
    found = facts("there_and_back")
    assert found.kernel is None and found.certainty.estimate


def test_what_is_long_and_draws_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many operations it takes."""
    monkeypatch.setattr(endless_solvers, "MOST", 200)
    assert not facts("adaptive").unended


@pytest.mark.parametrize(
    ("target", "status"), [("adaptive?fresh=True", Status.ADVICE), ("adaptive", Status.HOLDS)]
)
def test_the_life_of_its_noise_is_judged(target: str, status: Status) -> None:
    """Of what began, as of what ended."""
    assert check(f"{__name__}:{target}", LAW, Settings("quick")).status is status


def test_other_laws_wait_and_say_why() -> None:
    """With the sentence of the line."""
    target = f"{__name__}:adaptive?fresh=True"
    verdict = check(target, "map/log-det", Settings("quick"))
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.blocked
    assert "was stopped" in verdict.reason
