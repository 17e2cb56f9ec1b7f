"""Densities of many entries that no normal density overlaps, held to one that is bent to their marginals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flowref.laws.density.draws import placing
from flowref.laws.density.fit import marginal_quantile_warp
from flowref.laws.density.overlap import overlap
from flowref.model import Array, Batch
from laws.test_balance import LOG_2_PI, density


def pixels(size: int, *, constant: float = 0.0) -> Any:
    """Logits are normal, as those of images are; a constant that the log-density may count besides."""

    def sample(rng: np.random.Generator, n: int) -> Array:
        return np.asarray(1 / (1 + np.exp(-1.5 * rng.standard_normal((n, size)))))

    def log_prob(x: Array) -> Array:
        z = (np.log(x) - np.log1p(-x)) / 1.5
        slope = -np.log(x) - np.log1p(-x) - math.log(1.5)
        return np.asarray((slope - 0.5 * z**2 - 0.5 * LOG_2_PI).sum(1) + constant)

    return density(sample, log_prob, size, within="unit")


def off(flow: Any, seed: int = 0) -> float:
    """By how much of what is allowed it is off."""
    return float(overlap.measure(flow, Batch(np.zeros((1, 1)), None, 17 * seed)).value[0])


@pytest.mark.parametrize("size", [3, 40, 144])
def test_bent_coordinates_are_undone_and_tell_their_log_det(size: int) -> None:
    """Outward and inward are inverse, and the log-det is that of differences."""
    frame = marginal_quantile_warp(placing(pixels(size), 1).flat)
    y = np.random.default_rng(0).standard_normal((50, size))
    x = frame.outward(y)
    back, log_det = frame.inward(x)
    np.testing.assert_allclose(back, y, atol=1e-9)
    steps = 1e-9 * np.eye(size)
    slopes = np.stack([(frame.inward(x + s)[0] - frame.inward(x - s)[0]) / 2e-9 for s in steps], -1)
    measured = np.linalg.slogdet(slopes)[1]
    assert np.median(np.abs(measured - log_det)) < 1e-3


@pytest.mark.parametrize("size", [40, 144])
def test_images_of_independent_pixels_are_not_accused(size: int) -> None:
    """Six seeds of a density that is right, which is judged."""
    assert max(off(pixels(size), seed) for seed in range(6)) <= 1


@pytest.mark.parametrize("size", [40, 144])
@pytest.mark.parametrize("bug", [{"constant": 0.5}, {"constant": -15.0}])
def test_a_constant_that_images_lack_is_seen(size: int, bug: dict[str, float]) -> None:
    """Half a nat of many, and that of all pixels but one."""
    assert off(pixels(size, **bug)) > 1
