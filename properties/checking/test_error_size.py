"""How large the error of a violation is: minor or not, and in nats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking.fakes import TARGET, Shelf
from checking.standins import Standin
from flowref.checking import pair_verdict, remeasure
from flowref.checking.error_size import error_size
from flowref.model import EXACT, Batch, Law, Residual, Size, Status, Subject

TINY, LARGE = 1e-9, 1e-3


def everywhere(error: float) -> Callable[[Batch], Any]:
    """The same residual at every point."""
    return lambda batch: np.full(len(batch.x), error)


def larger_beyond(edge: float, error: float) -> Callable[[Batch], Any]:
    """A tiny residual everywhere, and another one where a coordinate lies beyond an edge."""
    return lambda batch: np.where((batch.x > edge).any(1), error, TINY)


def law_of(shelf: Shelf, residual: Callable[[Batch], Any], **details: Any) -> Law:
    """The law of a stand-in that is put on the shelf."""
    standin = Standin(residual, details={"effort": 10, **details})

    def subject(_: object) -> Subject:
        return standin.subject

    shelf.put(subject)
    return standin.law


@pytest.mark.parametrize(
    ("residual", "details", "minor"),
    [
        (everywhere(TINY), {}, True),
        (everywhere(LARGE), {}, False),
        (everywhere(2.0**-24), {}, True),
        (everywhere(2.0**-23), {}, False),
        (larger_beyond(50.0, LARGE), {}, False),  # no point of the first batch
        (everywhere(TINY), {"tolerance": EXACT}, False),
    ],
    ids=["tiny", "large", "rounding-of-single", "above-it", "large-far-out", "exact"],
)
def test_a_violation_is_minor_where_all_points_are(
    shelf: Shelf, residual: Callable[[Batch], Any], details: dict[str, Any], minor: bool
) -> None:
    """Below the rounding of single precision at every point of the whole search, of laws that are
    judged against rounding; a larger error anywhere is found and recorded instead.
    """
    verdict = pair_verdict(TARGET, law_of(shelf, residual, **details))
    assert verdict.status is Status.VIOLATED
    assert verdict.minor is minor
    assert verdict.evidence is not None
    assert (verdict.evidence.residual <= 2.0**-24) is (minor or "tolerance" in details)


def test_a_minor_violation_replays_as_one(shelf: Shelf) -> None:
    """Its case is minor when it is measured again."""
    law = law_of(shelf, everywhere(TINY))
    verdict = pair_verdict(TARGET, law)
    assert verdict.counterexample is not None
    again = remeasure(TARGET, law, verdict.counterexample)
    assert (again.status, again.minor) == (Status.VIOLATED, True)


@pytest.mark.parametrize("features", [1, 4])
def test_an_error_of_a_log_det_has_its_size_in_nats(features: int) -> None:
    """The mean over ordinary points, the largest of all, and bits per dimension."""
    standin = Standin(everywhere(0.5), features=features, details={"nats": True})
    size = error_size(standin.judged(np.ones(features)))
    assert size == Size(0.5, 0.5, 48, features)
    assert size.bits_per_dim == 0.5 / (features * math.log(2))


def test_an_error_far_out_is_measured_there(shelf: Shelf) -> None:
    """Where ordinary points show none, the size is that of the points that do."""
    standin = Standin(
        lambda batch: np.where((batch.x > 200).any(1), 2.0, 0.0), details={"nats": True}
    )
    size = error_size(standin.judged(np.full((3, 4), 1e3)))
    assert size == Size(2.0, 2.0, 3, 4)


def test_a_law_in_other_units_states_its_nats(shelf: Shelf) -> None:
    """A residual that is no error in nats says beside it what is; others have no size."""
    nats = Standin(everywhere(9.0), more=lambda batch: {"nats": np.full(len(batch.x), -0.25)})
    size = error_size(nats.judged(np.ones(4)))
    assert size is not None
    assert size.nats == 0.25
    assert error_size(Standin(everywhere(9.0)).judged(np.ones(4))) is None


def test_points_of_which_a_law_says_nothing_have_no_size() -> None:
    """The mean is over points that the law decides."""

    def some(batch: Batch) -> dict[str, Any]:
        return {"decidable": np.arange(len(batch.x)) % 2 == 0}

    standin = Standin(everywhere(0.5), more=some, details={"nats": True})
    size = error_size(standin.judged(np.ones(4)))
    assert size is not None
    assert size.points == 24
    assert isinstance(standin.measure(standin.subject, Batch(np.ones((1, 4)), None, 0)), Residual)
