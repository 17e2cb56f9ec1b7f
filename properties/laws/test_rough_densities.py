"""Densities of many entries that change by many nats a step away are judged by smaller steps; and those that no
normal density overlaps are told by a few points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowref.laws.density.balance import detailed_balance
from flowref.laws.density.fit import APART
from flowref.laws.density.overlap import GLANCE, overlap
from flowref.model import Array, Batch, Undecidable
from laws.test_balance import LOG_2_PI, density

SIZE, SEEDS = 40, 6


def rough(waves: float, latents: float = 1.0, samples: float = 1.0) -> Any:
    """x_1 = z_1, x_i = z_i + a wave of x_(i-1): a density of ridges; what is drawn may be off in the scale of
    its latents or of itself.
    """

    def wave(x: Array) -> Array:
        return np.asarray(waves * np.sin(3 * x))

    def sample(rng: np.random.Generator, n: int) -> Array:
        x = latents * rng.standard_normal((n, SIZE))
        for i in range(1, SIZE):
            x[:, i] += wave(x[:, i - 1])
        return samples * x

    def log_prob(x: Array) -> Array:
        z = np.concatenate([x[:, :1], x[:, 1:] - wave(x[:, :-1])], 1)
        return np.asarray(-0.5 * (z**2).sum(1) - 0.5 * SIZE * LOG_2_PI)

    return density(sample, log_prob, SIZE)


def off(flow: Any) -> list[float]:
    """By how much of what is allowed it is off, in several tries."""
    batches = [Batch(np.zeros((1, SIZE)), None, 17 * seed) for seed in range(SEEDS)]
    return [float(detailed_balance.measure(flow, batch).value[0]) for batch in batches]


@pytest.mark.parametrize("waves", [2.0, 5.0, 12.0])
def test_a_rough_density_is_judged_and_not_accused(waves: float) -> None:
    """At steps that are small enough for what lies a step away to be comparable."""
    assert max(off(rough(waves))) <= 1


@pytest.mark.parametrize(
    "flow", [rough(2.0, latents=0.9), rough(5.0, samples=1.005)], ids=["latents", "samples"]
)
def test_samples_of_a_rough_density_that_are_off_are_seen(flow: Any) -> None:
    """In most tries."""
    assert sum(value > 1 for value in off(flow)) > SEEDS / 2


def test_that_nothing_overlaps_is_told_by_a_few_points() -> None:
    """Of each kind of normal density, at samples and at points of its own."""
    flow = rough(5.0)
    asked: list[int] = []
    plain = flow.log_prob

    def counted(x: Array, context: Array | None = None) -> Array:
        asked.append(len(x))
        return np.asarray(plain(x))

    flow.log_prob = counted
    with pytest.raises(Undecidable, match=APART):
        overlap.measure(flow, Batch(np.zeros((1, SIZE)), None, 0))
    assert 0 < sum(asked) <= 4 * GLANCE
