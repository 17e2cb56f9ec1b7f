"""Large Jacobians without structure: made entry by entry at one point where that fits, and what is told
of them is their log-det.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading
from flowref.laws.bijection import at_size
from flowref.laws.bijection.at_size import log_det_at_points
from flowref.laws.common import entries
from flowref.laws.common.entries import eliminated, entry_by_entry, entrywise_refusal
from flowref.model import Array, Condition, Stage, Undecidable, draw_points
from flowref.model.abilities import Walked, offers
from flowref.model.budget import Budget, BudgetExceeded, limited_budget
from rows import first_of

SIZE = 24


class Dense(nn.Module):
    """A matrix over all entries, between functions of each."""

    event_shape = (SIZE,)

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.linalg.qr(torch.randn(SIZE, SIZE))[0] * 1.1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The value, and a log-det that nobody asks for."""
        return (x + 0.5 * x.sin() @ self.matrix.T).sinh(), x.new_zeros(len(x))


def linear(matrix: Array, work: float = 0.0) -> Stage:
    """The map of a matrix at a point, of which one cotangent takes so much."""
    x = np.random.default_rng(0).standard_normal((1, matrix.shape[1]))
    return Stage(x.shape[1:], x, x @ matrix.T, lambda pulled: pulled @ matrix, work=lambda: work)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("seed", first_of(range(4)))
def test_the_error_that_is_told_covers_entries_that_are_off(seed: int, condition: float) -> None:
    """log|det| of a matrix of which every entry is off by a share is within the error that is told,
    however badly it is conditioned.
    """
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0] for _ in range(2))
    matrix = left * np.geomspace(1, 1 / condition, SIZE) @ right
    off = 1e-9
    found = eliminated(matrix * (1 + off * rng.uniform(-1, 1, matrix.shape)), off)
    assert found is not None
    assert abs(found[0] - np.linalg.slogdet(matrix)[1]) <= found[1]


def test_a_singular_matrix_tells_nothing() -> None:
    """Where elimination cannot tell, nothing is told."""
    assert eliminated(np.vander(np.linspace(0, 1, SIZE)) + 1e-30, 1e-12) is None


@pytest.mark.parametrize("kind", ["triangular", "entry by entry"])
def test_what_is_made_is_told(kind: str) -> None:
    """A triangular matrix in any order is told by its diagonal, any other by elimination."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((SIZE, SIZE)) + 5 * np.eye(SIZE)
    if kind == "triangular":
        matrix = np.tril(matrix)[rng.permutation(SIZE)]
    told = entry_by_entry(linear(matrix))
    assert told is not None
    assert told.how == kind
    assert abs(told.log_det[0] - np.linalg.slogdet(matrix)[1]) <= told.error[0]


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Budget(), ""),
        (Budget(memory=1e3), "--memory"),
        (Budget(work=1e6), "--timeout"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_it_needs(allowed: Budget, words: str) -> None:
    """A Jacobian is made where memory and work allow it; else the option is named that allows it."""
    with limited_budget(allowed):
        refused = entrywise_refusal(linear(np.eye(SIZE), work=1e6))
    assert words in refused
    assert bool(refused) == bool(words)


def test_what_is_made_is_asked_for() -> None:
    """The work of a Jacobian counts among what a pair may spend."""
    with limited_budget(Budget(work=1e6)), pytest.raises(BudgetExceeded):
        entry_by_entry(linear(np.eye(SIZE), work=1e6))


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of 24 entries are large."""
    monkeypatch.setattr(at_size, "NOISED", SIZE // 2)


@pytest.mark.usefixtures("lowered")
def test_a_dense_map_is_told_at_one_point() -> None:
    """The log-det of what has no structure is known at the first point, whether noise is on or not,
    and there it is that of the Jacobian.
    """
    flow: Any = loading.load(loading.snapshot(Dense()), Condition())
    x = draw_points(flow.domain, (3, SIZE), np.random.default_rng(3))
    told = log_det_at_points(flow, "forward", x, None)
    truth = np.linalg.slogdet(flow.jacobian("forward", x, None))[1]
    assert told.known.tolist() == [True, False, False]
    assert abs(told.log_det[0] - truth[0]) <= told.error[0] < 1e-9
    with flow.noise(5, 2.0**-43):
        again = log_det_at_points(flow, "forward", x, None)
    assert again.log_det[0] == told.log_det[0]


@pytest.mark.usefixtures("lowered")
def test_where_nothing_fits_the_option_is_named() -> None:
    """Neither structure nor room: nothing is told, and the reason says what would be needed."""
    flow = loading.load(loading.snapshot(Dense()), Condition())
    assert offers(flow, Walked)
    x = draw_points(flow.domain, (1, SIZE), np.random.default_rng(3))
    with (
        limited_budget(Budget(work=entries.SHARE * 1e5)),
        pytest.raises(Undecidable, match="--timeout"),
    ):
        log_det_at_points(flow, "forward", x, None)
