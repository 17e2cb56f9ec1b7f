"""Errors of a composition in nats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref.laws.composition.chain import additive
from flowref.model import Array, Batch, Mapped


def composite(factor: float, forgotten: float) -> Any:
    """Twice ``x -> 2 x`` as parts of ``x -> 4 factor x``, whose log-det is less by ``forgotten``."""

    def part(x: Array, context: Any = None) -> Mapped:
        return Mapped(2 * x, np.full(len(x), x.shape[1] * np.log(2)))

    def whole(x: Array, context: Any = None) -> Mapped:
        log_det = x.shape[1] * np.log(4 * factor) - forgotten
        return Mapped(4 * factor * x, np.full(len(x), log_det))

    return SimpleNamespace(
        forward=whole, part_maps=(part, part), certainty=SimpleNamespace(estimate=False)
    )


@pytest.mark.parametrize(
    ("factor", "forgotten", "nats"),
    [(1.0, 0.5, -0.5), (1.0, 0.0, 0.0), (1.1, 0.5, None), (1.1, 0.0, None), (1 + 1e-15, 0.5, -0.5)],
)
def test_only_composites_that_map_as_their_parts_have_an_error_in_nats(
    factor: float, forgotten: float, nats: float | None
) -> None:
    """Of other maps the log-dets are others; values may differ by rounding."""
    x = np.linspace(-1.0, 1.0, 6).reshape(3, 2)
    found = additive.measure(composite(factor, forgotten), Batch(x, None, 0)).nats
    assert (found is None) is (nats is None)
    if found is not None:
        np.testing.assert_allclose(found, np.full(3, nats), atol=1e-12)
