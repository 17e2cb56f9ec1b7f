"""Scores that densities offer: which methods are read as one, and what the law says of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check, loading
from flowref.model import Status
from flowref.registry import parse_target

HERE = Path(__file__)
LOG_2_PI = math.log(2 * math.pi)


class Normal(nn.Module):
    """A normal density with a score; ``kind``: how that is written, ``factor``: what it is off by."""

    def __init__(self, kind: str = "", factor: float = 1.0) -> None:
        super().__init__()
        self.kind, self.factor = kind, factor
        self.mean = nn.Parameter(torch.tensor([0.4, -0.3, 1.1]))
        self.log_scale = nn.Parameter(torch.tensor([0.2, -0.4, 0.1]))

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = (x - self.mean) * (-self.log_scale).exp()
        found = (-0.5 * z.square() - self.log_scale - 0.5 * LOG_2_PI).sum(-1)
        if self.kind == "unnormalized":
            return found + 3.0
        return found * 0.5 + found.detach() * 0.5 if self.kind == "cut off" else found

    def sample(self, n: int) -> Any:
        """Draw."""
        return self.mean + self.log_scale.exp() * torch.randn(n, 3)

    def score(self, x: Any) -> Any:
        """The gradient of the log-density."""
        score = -(x - self.mean) * (-2 * self.log_scale).exp()
        if self.kind == "autograd":
            with torch.enable_grad():
                x = x.detach().requires_grad_(True)
                score = torch.autograd.grad(self.log_prob(x).sum(), x)[0]
        if self.kind == "without a graph":
            with torch.no_grad():
                score = -(x - self.mean) * (-2 * self.log_scale).exp()
        if self.kind == "single":
            score = (-(x - self.mean).float() * (-2 * self.log_scale).exp().float()).to(x)
        return self.factor * (score[:, None] if self.kind == "axis of one" else score)


class Arrays:
    """The same in numpy."""

    mean, scale = np.array([0.4, -0.3]), np.array([0.7, 1.6])

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = (x - self.mean) / self.scale
        return (-0.5 * z**2 - np.log(self.scale) - 0.5 * LOG_2_PI).sum(-1)

    def sample(self, n: int) -> Any:
        """Draw."""
        return self.mean + self.scale * np.random.standard_normal((n, 2))

    def score(self, x: Any) -> Any:
        """The gradient of the log-density."""
        return -self.factor * (x - self.mean) / self.scale**2


class Timed(nn.Module):
    """Normal data at a time."""

    def __init__(self, power: float = 2.0) -> None:
        super().__init__()
        self.power, self.mean = power, nn.Parameter(torch.tensor([1.0, -1.0]))

    def log_prob(self, x: Any, t: Any) -> Any:
        """The log-density at a time."""
        scale = (1 + t.square()).sqrt().reshape(-1, 1)
        return (-0.5 * ((x - self.mean) / scale).square() - scale.log() - 0.5 * LOG_2_PI).sum(-1)

    def score(self, x: Any, t: Any) -> Any:
        """Its gradient in x."""
        return -(x - self.mean) / (1 + t.square()).sqrt().reshape(-1, 1) ** self.power


KINDS = ("", "autograd", "without a graph", "single", "axis of one", "unnormalized")
ROWS = [
    *(pytest.param(Normal, (kind,), Status.HOLDS, id=f"right {kind}") for kind in KINDS),
    *(pytest.param(Normal, (kind, 0.5), Status.VIOLATED, id=f"half {kind}") for kind in KINDS),
    pytest.param(Normal, ("", -1.0), Status.VIOLATED, id="sign"),
    pytest.param(Normal, ("", 1 + 1e-9), Status.VIOLATED, id="a little"),
    pytest.param(
        Normal, ("cut off",), Status.INCONCLUSIVE, id="autograd is wrong, and not the score"
    ),
    pytest.param(Arrays, (), Status.HOLDS, id="arrays"),
    pytest.param(Arrays, (0.5,), Status.VIOLATED, id="half arrays"),
    pytest.param(Timed, (), Status.HOLDS, id="at a time"),
    pytest.param(Timed, (1.0,), Status.VIOLATED, id="deviation at a time"),
]


@pytest.mark.parametrize(("kind", "given", "status"), ROWS)
def test_a_score_is_the_gradient_of_the_log_density(
    kind: Any, given: tuple[Any, ...], status: Status
) -> None:
    """A score is held to the gradient of the log-density, however it is written; where autograd's is not that of the
    log-density, nothing is said.
    """
    assert check(kind(*given), "density/score").status is status


class AtALevel(Normal):
    """The score of noised data."""

    def score(self, x: Any, sigma: float = 0.5) -> Any:
        """At a level of noise."""
        return -x / (1 + sigma**2)


class AtATime(Normal):
    """The score of noised data."""

    def score(self, x: Any, t: Any) -> Any:  # type: ignore[override]  # it takes a time
        """At a time."""
        return -x / t


class OfParameters(Normal):
    """Another score."""

    def score(self, x: Any) -> Any:
        """Fisher score: the gradient with respect to the mean."""
        return x - self.mean


class OfModel(Normal):
    """The score of an estimator."""

    def score(self, X: Any, y: Any = None) -> Any:
        """The mean log-likelihood."""
        return self.log_prob(X).mean()


class OfPoints(Normal):
    """How unusual points are."""

    def score(self, x: Any) -> Any:
        """A number for each."""
        return -self.log_prob(x)


class Drawn(Normal):
    """An estimate."""

    def score(self, x: Any) -> Any:
        """It draws."""
        return -x + torch.randn_like(x)


class ByDifferences(Normal):
    """No gradient, but near it."""

    def score(self, x: Any) -> Any:
        """Differences of the log-density."""
        steps = 1e-3 * torch.eye(3).to(x)
        found = [(self.log_prob(x + step) - self.log_prob(x - step)) / 2e-3 for step in steps]
        return torch.stack(found, -1)


@pytest.mark.parametrize(
    "kind", [AtALevel, AtATime, OfParameters, OfModel, OfPoints, Drawn, ByDifferences]
)
def test_what_means_something_else_is_not_read(kind: Any) -> None:
    """A score at a time that the log-density does not take, one in parameters, one for each point or for all, an estimate
    and differences are not read as the gradient.
    """
    assert check(kind(), "density/score").status is Status.NOT_APPLICABLE


class OneNumber(nn.Module):
    """A density of single numbers, of which a score may be anything."""

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        return (-0.5 * x.square() - 0.5 * LOG_2_PI).sum(-1)

    def sample(self, n: int) -> Any:
        """Draw."""
        return torch.randn(n, 1)

    def score(self, x: Any) -> Any:
        """A column."""
        return -2 * x


@pytest.mark.parametrize(
    ("option", "status"),
    [("", Status.NOT_APPLICABLE), ("&score=score", Status.VIOLATED), ("&score=none", Status.NOT_APPLICABLE)],
)  # fmt: skip
def test_a_score_of_single_numbers_is_read_where_it_is_said(option: str, status: Status) -> None:
    """A column of numbers may be a gradient or something else: a line asks, and an option says."""
    spec = f"{HERE}:OneNumber?event=1{option}"
    assert check(spec, "density/score").status is status
    hints = loading.recipe_of(parse_target(spec)).probed.hints
    assert any("score=score" in hint for hint in hints) is (not option)
