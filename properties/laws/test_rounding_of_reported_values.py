"""A log-det that structure tells has the rounding of the derivatives that it is read off, which all
predictions share: it is asked for before what was reported is held against it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref.laws.bijection.oracles import against_structure
from flowref.laws.bijection.structured_log_det import NOISE, log_det_by_structure
from flowref.laws.common.structure import StructuredLogDet
from flowref.model import Mapped
from flowref.model.certainty import Certainty

X = np.arange(6.0).reshape(2, 3)
TRUE, MOVED = np.array([5.0, -3.0]), 1e-7


class Walked:
    """A map of which structure tells a log-det, that noise moves; ``tellings``: how often it was asked.
    ``stray``: by how much rounding moves what it reports; ``error``: of what is told.
    """

    def __init__(self, how: str = "elementwise", stray: float = 0.0, error: float = 0.0) -> None:
        self.calls, self.stray, self.error = {"forward": self.reports}, stray, error
        self.promises: dict[str, Any] = {}
        self.certainty = Certainty.of(self.promises)
        self.facts = SimpleNamespace(
            cost=SimpleNamespace(heavy=True),
            coupling=None,
        )
        self.dtype, self.forward = "float64", id
        self.how, self.noisy, self.tellings = how, False, 0
        self.walk = self.walked  # the same object each time: what was told is remembered with it

    def reports(self, x: Any, context: Any = None) -> Mapped:
        """A log-det, moved by noise as many times as it is louder than rounding."""
        return Mapped(x, TRUE + self.noisy * NOISE["float64"][1] * self.stray)

    def built(self) -> int:
        """Always the same object."""
        return 0

    def rounding(self) -> bool:
        """Whether noise is on."""
        return self.noisy

    @contextlib.contextmanager
    def noise(self, seed: int, magnitude: float) -> Iterator[None]:
        """Noise, which moves what is told by as many times as it is louder than rounding."""
        self.noisy = True
        yield
        self.noisy = False

    def walked(self, which: str, x: Any, context: Any, visitor: Any) -> StructuredLogDet:
        """Tell it."""
        self.tellings += 1
        louder = NOISE["float64"][1]
        told = TRUE + self.noisy * louder * MOVED
        return StructuredLogDet(
            told, np.full(2, self.error), np.ones(2, bool), f"by structure: {self.how}"
        )


def test_what_was_reported_alike_is_not_asked_about() -> None:
    """A log-det that is reported to the last digits costs one telling."""
    flow: Any = Walked()
    told = log_det_by_structure(flow, "forward", X, None, TRUE * (1 + 1e-16))
    assert flow.tellings == 1 and not told.error.any()


@pytest.mark.parametrize("again", [False, True])
def test_another_log_det_is_held_against_what_rounding_leaves(again: bool) -> None:
    """Where it is another, the error is what noise does to what is told; asked for once."""
    flow: Any = Walked()
    for _ in range(1 + again):
        told = log_det_by_structure(flow, "forward", X, None, TRUE + 1e-6)
    assert flow.tellings == 2
    assert (told.error > 1e-6).all() and (told.error < 1e-4).all()


@pytest.mark.parametrize(("stray", "tellings"), [(1e-6, 1), (1e-9, 2)])
def test_what_rounding_of_the_report_explains_is_not_told_again(
    stray: float, tellings: int
) -> None:
    """Telling takes several times a call: it is told again where noise in the call explains too little."""
    flow: Any = Walked(stray=stray)
    log_det_by_structure(flow, "forward", X, None, TRUE + 1e-6)
    assert flow.tellings == tellings


@pytest.mark.parametrize(
    ("entries", "error", "decided"),
    [(3, 0.005, True), (3, 0.015, False), (256, 0.015, True), (256, 0.03, False)],
)
def test_what_is_known_of_many_entries_decides_and_says_how_well(
    entries: int, error: float, decided: bool
) -> None:
    """A hundredth of a nat, or as much for each 128 entries; where that is more, the road says it."""
    flow: Any = Walked(error=error)
    x = np.zeros((2, entries))
    residual = against_structure(flow, "forward", x, None, Mapped(x, TRUE))
    assert np.all(residual.decidable) == decided
    assert ("within 0.015 nats" in residual.method) == (decided and error > 0.01)
