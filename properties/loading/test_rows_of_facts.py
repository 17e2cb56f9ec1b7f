"""Facts that experiments show: rows are run in order where they are required, and an object is asked little."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.loading.draft import Draft, Experiment, Finding, run_experiments
from flowref.loading.experiments import OF_CALLS, OF_DENSITIES, OF_ESTIMATES, OF_ROUND_TRIPS
from flowref.loading.instance import instance_of
from flowref.loading.source import source_of
from flowref.loading.user_code import import_place
from flowref.model import Dialect, Facts

ROWS = (*OF_CALLS, *OF_DENSITIES, *OF_ROUND_TRIPS, *OF_ESTIMATES)
# Calls of an object before the first law, at most.
MOST = 60
CALLS: Counter[str] = Counter()


class Counted(nn.Module):
    """What counts the calls that others make of it."""

    def __call__(self, *inputs: Any) -> Any:
        """See `forward`."""
        CALLS["forward"] += 1
        return super().__call__(*inputs)


class Coupling(Counted):
    """The second half of four numbers is scaled and moved by the first."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s, t = self.net(x[:, :2]).tanh().chunk(2, 1)
        return torch.cat([x[:, :2], x[:, 2:] * s.exp() + t], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        CALLS["inverse"] += 1
        s, t = self.net(z[:, :2]).tanh().chunk(2, 1)
        return torch.cat([z[:, :2], (z[:, 2:] - t) / s.exp()], 1), -s.sum(1)


class Images(Counted):
    """Half of the channels of an image is scaled and moved by the other half."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Conv2d(2, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, 1)
        s, t = self.net(a).tanh().chunk(2, 1)
        return torch.cat([a, b * s.exp() + t], 1), s.flatten(1).sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        CALLS["inverse"] += 1
        a, b = z.chunk(2, 1)
        s, t = self.net(a).tanh().chunk(2, 1)
        return torch.cat([a, (b - t) / s.exp()], 1), -s.flatten(1).sum(1)


def draft() -> Draft:
    """What is known of a coupling before anything is."""
    instance = instance_of(source_of(registry.parse_target(f"{__file__}:Coupling")), "float64")
    return Draft(instance, Facts((4,)), Settled(Dialect()))


def test_rows_see_what_was_found_before() -> None:
    """They are run in order, those alone that are required, and what is said keeps that order."""
    table = (
        Experiment("first", lambda _: Finding(("1",), promises={"fixed": True}), "found {}"),
        Experiment(
            "second", lambda _: None, "never {}", (lambda one: one.facts.promises["fixed"],)
        ),
        Experiment("third", lambda _: 1 / 0, "never {}", (lambda _: False,)),  # type: ignore[arg-type, return-value]
        Experiment("fourth", lambda _: Finding(("2", "3")), "and {}"),
    )
    found = run_experiments(draft(), table)
    assert found.facts.promises["fixed"]
    assert found.resolved.conventions == ("found 1", "and 2", "and 3")


def test_each_row_is_a_fact_of_its_own() -> None:
    """No two rows have one name, and the words of each have one place for what is told at most."""
    assert len({row.fact for row in ROWS}) == len(ROWS)
    assert all(row.words.count("{}") <= 1 for row in ROWS)


@pytest.mark.parametrize("name", ["Coupling", "Images"])
def test_an_object_is_asked_little_before_the_first_law(name: str) -> None:
    """From its text to its subject."""
    loading.forget()
    target = registry.parse_target(f"{__file__}:{name}")
    calls: Counter[str] = import_place(__file__).CALLS
    calls.clear()
    loading.load(target)
    assert 0 < sum(calls.values()) < MOST
