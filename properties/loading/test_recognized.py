"""What a target was recognized as reaches the report, and the line about it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import flowref
from flowref import loading, registry
from flowref.loading.kinds import target_kind
from flowref.loading.recipe import recipe_of
from flowref.model import Coupling, Dialect, Facts, Normalizer, Squeezing
from flowref.reporting.report import Report
from flowref.reporting.terminal import recognition_lines


def call(obj: Any, x: Any, context: Any = None) -> Any:
    """Any call of a dialect; it is not made here."""


MAP = Dialect(forward=call)
PAIR = Dialect(forward=call, inverse=call)
NAMED = {role: role for role in ("running_mean", "running_var", "eps")}


@pytest.mark.parametrize(
    ("dialect", "facts", "kind"),
    [
        (PAIR, {}, "bijection with inverse"),
        (MAP, {}, "bijection without inverse"),
        (Dialect(log_prob=call), {}, "density without sampler"),
        (Dialect(log_prob=call, sample=call), {}, "density with sampler"),
        (
            Dialect(forward=call, inverse=call, log_prob=call),
            {},
            "bijection with inverse and density without sampler",
        ),
        (PAIR, {"coupling": Coupling((1.0, 0.0), "affine")}, "affine coupling with inverse"),
        (PAIR, {"squeezing": Squeezing()}, "squeeze with inverse"),
        (MAP, {"normalizer": Normalizer(roles=NAMED)}, "batch norm"),
        (
            PAIR,
            {"normalizer": Normalizer(roles={"eps": "eps"})},
            "batch norm with inverse, with unknown running mean and running variance",
        ),
        (Dialect(cdf=call, icdf=call), {}, "distribution function with quantiles"),
        (Dialect(dequantize=call), {}, "dequantizer"),
        (Dialect(sample=call), {}, "sampler without density"),
    ],
)
def test_the_kind_is_said_by_what_a_target_offers(
    dialect: Dialect, facts: dict[str, Any], kind: str
) -> None:
    """The kind names the map, its way back, the density and its sampler, where there are any."""
    assert target_kind(dialect, Facts((2,), **facts)) == kind


class Shift(nn.Module):
    """x -> x + t, without a word about its event shape."""

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x + self.t, torch.zeros(len(x), dtype=x.dtype)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z - self.t, torch.zeros(len(z), dtype=z.dtype)


def test_a_report_says_what_was_recognized() -> None:
    """An audit's report has the kind, the event shape and who told it, through JSON and back."""
    report = flowref.audit(Shift(), laws=["map/inverse"], profile="quick")
    (recognized,) = Report.from_json(report.to_json()).recognized.values()
    assert recognized.kind == "bijection with inverse"
    assert recognized.event == "event shape (3,): inferred; ?event= sets another"
    assert recognized.why
    assert recognition_lines(recognized) == [recognized.event]


class Sliced(nn.Module):
    """A coupling of two features that runs at every other number, where its one scale is stretched
    over several entries, or over none.
    """

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s, t = self.net(x[..., :1]).chunk(2, -1)
        z = torch.cat([x[..., :1], x[..., 1:] * s.exp() + t], -1)
        return z, self.factor * s.sum(-1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        s, t = self.net(z[..., :1]).chunk(2, -1)
        return torch.cat([z[..., :1], (z[..., 1:] - t) * (-s).exp()], -1), -s.sum(-1)


@pytest.mark.parametrize(("factor", "violated"), [(1.0, False), (1.01, True)])
def test_a_guessed_event_stretches_nothing(factor: float, violated: bool) -> None:
    """Of the event shapes that a map takes, one is guessed at which no number of a point counts for
    several: a correct coupling is not accused of its log-det, and a wrong one is.
    """
    report = flowref.audit(Sliced(factor), laws=["map/log-det"], profile="quick")
    (recognized,) = Report.from_json(report.to_json()).recognized.values()
    assert recognized.event == "event shape (2,): inferred; ?event= sets another"
    assert bool(report.violations) is violated


def test_what_workers_recognize_reaches_the_report() -> None:
    """A report of an audit in worker processes says as much as one made in this process."""
    name, laws = "torch:SigmoidTransform", ["map/inverse"]
    reports = [flowref.audit(name, laws=laws, profile="quick", jobs=jobs) for jobs in (0, 1)]
    assert reports[0].recognized == reports[1].recognized
    assert reports[0].recognized[name] == recipe_of(registry.parse_target(name)).recognized


def test_a_construction_is_one_line() -> None:
    """Of a library's construction nothing but its kind is said."""
    recognized = recipe_of(registry.parse_target("torch:SigmoidTransform")).recognized
    assert not recognition_lines(recognized)


class Saturating(nn.Module):
    """An elementwise map without parameters, which large numbers saturate."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.function(x)


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh, torch.atan, torch.sign])
def test_what_saturates_is_no_normalizer(function: Any) -> None:
    """That shifts and scales of large inputs leave the output as it is makes no batch norm."""
    facts = recipe_of(loading.snapshot(Saturating(function))).facts
    assert facts.normalizer is None
