"""What is conspicuous in few draws is looked at with more, which alone accuse; and what no draw meets is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowref.laws.common.statistics import Finding, Look
from flowref.laws.contribution import two_ways as law
from flowref.laws.contribution.integral import STAGES
from flowref.laws.contribution.near_pairs import Bump, bump_weights_and_heights
from flowref.laws.contribution.weights import filled
from flowref.loading import load
from flowref.model import Batch
from flowref.registry import parse_target


@pytest.mark.parametrize(
    ("excesses", "stages", "judged"),
    [((0.4,), 1, 0.4), ((0.8, 0.3), 2, 0.3), ((0.8, 2.0), 2, 2.0), ((3.0, 0.9), 2, 0.9)],
    ids=["quiet", "chance", "confirmed", "refuted"],
)
def test_only_a_second_stage_accuses(
    monkeypatch: pytest.MonkeyPatch, excesses: tuple[float, ...], stages: int, judged: float
) -> None:
    """A difference of more than half of what accuses is measured again, with fresh draws and more of them."""
    seen: list[tuple[int, int]] = []

    def difference(_: Any, __: Any, look: Look) -> Finding:
        seen.append((look.count, look.seed))
        return Finding(excesses[len(seen) - 1])

    monkeypatch.setattr(law, "difference", difference)
    subject = load(parse_target("reference:Slice"))
    residual = law.two_ways.measure(subject, Batch(np.zeros((1, 3)), None, 0))
    assert float(residual.value[0]) == pytest.approx(judged)
    assert [count for count, _ in seen] == list(STAGES[:stages])
    assert len({seed for _, seed in seen}) == stages


@pytest.mark.parametrize("far", [1e3, 1e100])
def test_a_bump_that_no_draw_meets_has_no_height(far: float) -> None:
    """Exactly none, however far off it is."""
    subject: Any = load(parse_target("reference:Slice"))
    x, z = np.full(subject.event_shape, far), np.zeros(subject.latent_shape)
    bump = Bump(x, z, np.ones_like(x), np.ones_like(z))
    _, heights = bump_weights_and_heights(subject, filled(subject, 0), bump, 50, 0)
    assert not heights.any()
