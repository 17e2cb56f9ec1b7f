"""Domains are found by calls, where nobody says them: of maps that give no numbers elsewhere, or lose signs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import Settings, pair_verdict
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class Mapping(nn.Module):
    """An elementwise map of three numbers with its log-det."""

    event_shape = (3,)

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        with torch.enable_grad():
            points = x.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(self.function(points).sum(), points)
        return self.function(x), slope.abs().log().sum(-1)


def logit() -> nn.Module:
    """Of probabilities."""
    return Mapping(lambda x: x.log() - (1 - x).log())


def pixels() -> nn.Module:
    """Of what may go a twentieth beyond them."""
    return Mapping(lambda x: torch.logit((x + 0.05) / 1.1))


def log() -> nn.Module:
    """Of positive numbers."""
    return Mapping(torch.log)


def artanh() -> nn.Module:
    """Of what lies between two signs."""
    return Mapping(torch.atanh)


def line() -> nn.Module:
    """Of all numbers."""
    return Mapping(torch.sinh)


def two() -> nn.Module:
    """Of what lies away from zero, which is no interval."""
    return Mapping(lambda x: (x.abs() - 0.6).log() * x.sign())


def angles() -> nn.Module:
    """Of angles, which it turns."""
    return Mapping(lambda x: torch.remainder(x + 1.5 + math.pi, 2 * math.pi) - math.pi)


def phases() -> nn.Module:
    """Of phases, which it turns back."""
    return Mapping(lambda x: torch.remainder(x - 0.25, 1))


def torn() -> nn.Module:
    """Of all numbers, with a jump in the middle, beyond which it goes on."""
    return Mapping(lambda x: x + 2 * math.pi * (x > 0.3))


class Pair(Mapping):
    """An elementwise map of three numbers, and its way back."""

    def __init__(self, function: Any, back: Any) -> None:
        super().__init__(function)
        self.back = back

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


def weibull() -> nn.Module:
    """Of positive numbers, though even powers have an image of negative ones."""
    return Pair(lambda x: -torch.expm1(-(x**2)), lambda z: (-torch.log1p(-z)).sqrt())


def unsigned() -> nn.Module:
    """Of all numbers, with a sign that the way back has lost."""
    return Pair(lambda x: x * x.abs(), lambda z: z.abs().sqrt())


def folded() -> nn.Module:
    """Of all numbers, whose signs one coordinate forgets."""
    return Pair(lambda x: torch.cat([x[:, :2], x[:, 2:].abs()], 1), lambda z: z)


class Uniform(nn.Module):
    """The log-density of the unit cube, which is minus infinity elsewhere, as it should be."""

    event_shape = (3,)

    def log_prob(self, x: Any) -> Any:
        """Of points."""
        inside = ((x > 0) & (x < 1)).all(-1)
        return torch.where(inside, 0.0, -math.inf).to(x)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("logit", 0, 1),
        ("pixels", -0.05, 1.05),
        ("log", 0, math.inf),
        ("artanh", -1, 1),
        ("line", -math.inf, math.inf),
        ("angles", -math.pi, math.pi),
        ("phases", 0, 1),
        ("torn", -math.inf, math.inf),
        ("weibull", 0, math.inf),
        ("unsigned", -math.inf, math.inf),
        ("folded", -math.inf, math.inf),
        ("two", -math.inf, math.inf),
        ("Uniform", -math.inf, math.inf),
    ],
)
def test_where_a_map_gives_numbers_is_its_domain(name: str, low: float, high: float) -> None:
    """An interval outside of which few points have an image is the domain, and one that values are brought
    back into; what is none is left alone, and so are densities that are nothing elsewhere.
    """
    domain = recipe_of(parse_target(f"{__file__}:{name}")).facts.domain
    assert (domain.low, domain.high) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("logit", "domain: unit, since it is not finite elsewhere"),
        (
            "weibull",
            "domain: positive, since the signs of x are lost: inverse(f(-x)) = x",
        ),
    ],
)
def test_a_domain_that_was_found_is_said(name: str, words: str) -> None:
    """What was decided can be contradicted."""
    target = parse_target(f"{__file__}:{name}")
    assert words in recipe_of(target).recognized.conventions
    assert recipe_of(target.with_options(domain="real")).facts.domain.kind == "real"


class Standardized(nn.Module):
    """A map of what lies away from zero before a batch norm."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.norm((x.abs() - 0.6).log())


def test_batches_beyond_a_domain_are_not_called_degenerate() -> None:
    """What ordinary points do to the state already, no degenerate batch is accused of."""
    verdict = pair_verdict(
        parse_target(f"{__file__}:Standardized"), "state/degenerate-batch", Settings("quick")
    )
    assert verdict.status is Status.INCONCLUSIVE, verdict
    assert "an ordinary batch leaves" in verdict.reason
