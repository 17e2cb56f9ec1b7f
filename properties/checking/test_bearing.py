"""The weights that a heavy object is measured with first are moved as far as it bears, and a wrong
inverse is no reason to leave them as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checking.fakes import TARGET, Shelf
from flowref import loading
from flowref.checking.bearing import bearable
from flowref.model import Array, Condition, Facts, Mapped, Subject

SCALES = (0.3, 0.1)


def grown(depth: int, wrong: bool) -> Shelf:
    """A map of so many layers that is the identity as given, and multiplies by 1 + scale in each."""

    def build(condition: Condition) -> Subject:
        factor = (1.0 + condition.scale) ** depth

        def forward(x: Array, context: Array | None = None) -> Mapped:
            return Mapped(x * factor, np.full(len(x), 4 * np.log(factor)))

        def inverse(z: Array, context: Array | None = None) -> Mapped:
            way = z * factor if wrong else z / factor
            return Mapped(way, np.full(len(z), -4 * np.log(factor)))

        calls: dict[str, Any] = {"forward": forward, "inverse": inverse}
        return Subject(name="grown", facts=Facts((4,)), calls=calls)

    shelf = Shelf()
    shelf.put(build)
    return shelf


@pytest.mark.parametrize(
    ("depth", "wrong", "expected"),
    [(4, False, 0.3), (100, False, 0.1), (1000, False, 0.0), (4, True, 0.3), (100, True, 0.1)],
)
def test_weights_are_moved_as_far_as_images_stay_ordinary(
    depth: int, wrong: bool, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether what is the identity as given comes back or not."""
    shelf = grown(depth, wrong)
    monkeypatch.setattr(loading, "load", shelf.load)
    monkeypatch.setattr(loading, "recipe_of", lambda target: object())
    assert bearable(TARGET, SCALES) == expected
