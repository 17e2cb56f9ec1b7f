"""The line scan: which points it has, and that only what is conspicuous costs more than one call."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checking.fakes import TARGET, Shelf
from checking.standins import Standin
from flowref.checking import pair_verdict
from flowref.checking.line_scan import (
    ENTRIES,
    FARTHEST,
    JUDGED,
    ROW_OPERATIONS,
    ROWS,
    conspicuous,
    scan,
)
from flowref.model import Batch, Residual, Status, Subject, Support, Verdict
from flowref.model.abilities import Flow

KINDS = ("real", "unit", "positive", "(-3,-1)", "(-inf,2)")
OWN = 2.71


def subject(kind: str = "real", features: int = 2, numbers: tuple[float, ...] = (OWN,)) -> Subject:
    """A subject that lives on a set and holds some numbers."""
    standin = Standin(lambda batch: 0.0 * batch.x[:, 0], features, Support.parse(kind))
    return replace(standin.subject, numbers=lambda: numbers)


@pytest.mark.parametrize("features", [1, 2, ENTRIES])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_is_a_thousand_points_of_the_set(kind: str, features: int) -> None:
    """About so many, all strictly inside, and the same at each call."""
    flow = subject(kind, features)
    x = scan(flow, "domain", 1).x
    assert ROWS / 2 < len(x) <= 2 * ROWS
    assert Support.parse(kind).holds(x).all()
    assert scan(flow, "domain", 1).x.tobytes() == x.tobytes()


@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize(
    "value",
    [0.0, 1.0, -3.0, 7.5, OWN, -OWN, np.nextafter(OWN, 9), OWN + 1e-6 * (1 + OWN), FARTHEST],
)
def test_a_scan_visits_the_numbers_at_which_formulas_change(value: float, features: int) -> None:
    """Each in every coordinate, and in all of them."""
    x = scan(subject(features=features), "domain", 1).x
    hit = x == value
    assert hit.all(1).any()
    assert features == 1 or (hit.any(0).all() and (hit.sum(1) == 1).any())


@pytest.mark.parametrize("kind", ["unit", "(-3,-1)"])
def test_a_scan_goes_to_the_ends_of_a_bounded_set(kind: str) -> None:
    """To within a millionth of a millionth of its width, at either end."""
    support = Support.parse(kind)
    x, width = scan(subject(kind), "domain", 1).x, support.high - support.low
    assert x.min() - support.low < 1e-12 * width
    assert support.high - x.max() < 1e-12 * width


@pytest.mark.parametrize(
    ("kind", "features", "operations"),
    [("real", ENTRIES + 1, 0), ("ordered", 2, 0), ("real", 2, ROW_OPERATIONS)],
)
def test_what_is_large_or_slow_is_not_scanned(kind: str, features: int, operations: int) -> None:
    """Nor is a set whose coordinates hang together."""
    slow = replace(subject(kind, features), operations=operations)
    assert not len(scan(slow, "domain", 1).x)


def test_a_scan_has_one_context() -> None:
    """So that its points are points of one map."""
    flow = subject().with_facts(context_shape=(3,))
    batch = scan(flow, "domain", 1)
    assert batch.context is not None
    assert batch.context.shape == (len(batch.x), 3)
    assert (batch.context == batch.context[0]).all()


def checked(shelf: Shelf, residual: Any, **details: Any) -> tuple[Standin, Verdict]:
    """The verdict on a law that is scanned."""
    standin = Standin(residual, features=2, details={"effort": 2, "scanned": True, **details})
    shelf.put(lambda condition: replace(standin.subject, numbers=lambda: (OWN,)))
    return standin, pair_verdict(TARGET, standin.law)


def test_a_law_that_holds_is_measured_once_on_a_scan(shelf: Shelf) -> None:
    """No noise is spent where nothing is conspicuous, and the points of a scan are not counted."""
    standin, verdict = checked(shelf, lambda batch: np.zeros(len(batch.x)))
    assert verdict.status is Status.HOLDS
    assert verdict.counts.held < ROWS / 2
    assert sum(len(batch.x) > ROWS / 2 for batch in standin.measured) == 1
    assert not standin.seeds


@pytest.mark.parametrize("bound", [3e2, 3e4, 9e5])
def test_a_violation_in_a_tail_is_found(shelf: Shelf, bound: float) -> None:
    """Where points that are drawn hardly go."""
    _, verdict = checked(shelf, lambda batch: 1e-3 * (batch.x > bound).any(1))
    assert verdict.status is Status.VIOLATED
    assert verdict.counterexample is not None
    assert np.max(verdict.counterexample.x) > bound


class AtPoint(Standin):
    """A residual at a single number, which noise leaves."""

    def measure(self, flow: Flow, batch: Batch) -> Residual:
        """What the law measures: under noise, the residual of a point beside."""
        beside = batch._replace(x=batch.x + 1e-9) if self.level else batch
        return super().measure(flow, beside)


@pytest.mark.parametrize(("local", "status"), [(False, Status.VIOLATED), (True, Status.HOLDS)])
def test_a_value_that_is_wrong_at_one_number_is_found(
    shelf: Shelf, local: bool, status: Status
) -> None:
    """Noise leaves the point and finds nothing: that excuses a kink of a derivative, and no value."""
    standin = AtPoint(
        lambda batch: 1e-3 * (batch.x == OWN).any(1),
        features=2,
        details={"effort": 2, "scanned": True, "local": local},
    )
    shelf.put(lambda condition: replace(standin.subject, numbers=lambda: (OWN,)))
    assert pair_verdict(TARGET, standin.law).status is status


class Jump(Standin):
    """A residual at a single number, which noise finds on one side of it."""

    def measure(self, flow: Flow, batch: Batch) -> Residual:
        """What the law measures."""
        rng = np.random.default_rng(len(self.seeds))
        side = rng.random(len(batch.x)) < 0.5 if self.level else np.ones(len(batch.x), bool)
        residual = super().measure(flow, batch)
        return replace(residual, value=residual.value + (batch.x == OWN).any(1) * side)


def test_a_jump_is_no_value_that_is_wrong_alone(shelf: Shelf) -> None:
    """Where noise finds now one side and now the other, rounding decides."""
    standin = Jump(lambda batch: np.zeros(len(batch.x)), features=2)
    standin.details = {"effort": 2, "scanned": True, "local": False}
    shelf.put(lambda condition: replace(standin.subject, numbers=lambda: (OWN,)))
    assert pair_verdict(TARGET, standin.law).status is Status.HOLDS


def test_few_conspicuous_points_are_judged() -> None:
    """Those that stand out most, and some of every size."""
    standin = Standin(lambda batch: np.abs(batch.x[:, 0]), features=1)
    x = np.linspace(0.1, 3.9, 1000)
    rows = conspicuous(standin.measurement(x))
    assert len(rows) <= 2 * JUDGED
    assert {0, 999} <= set(rows)


def test_what_overflows_in_a_corner_is_not_conspicuous() -> None:
    """A residual that is not finite counts near zero only."""
    standin = Standin(lambda batch: np.where(batch.x[:, 0] > 1, math.inf, 0.0), features=1)
    x = np.array([0.5, 2.0, 14.0])
    assert list(conspicuous(standin.measurement(x))) == [1]
