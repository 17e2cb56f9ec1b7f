"""Monte-Carlo arithmetic in numpy: what a module computes in arrays is rounded, what is exact stays
exact, and calls without noise see plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats

from flowref.backends.torch.array_noise import RoundedArray, arrays_rounded
from flowref.backends.torch.noise import RandomRounding

MAGNITUDE = 2.0**-43
EXACT: dict[str, Callable[[Any], Any]] = {
    "times-two": lambda a: a * 2,
    "divided-by-four": lambda a: a / 4,
    "plus-zero": lambda a: a + 0.0,
    "negated": lambda a: -a,
    "absolute": np.abs,
    "largest": lambda a: np.maximum(a, 0.5),
    "clipped": lambda a: np.clip(a, -0.5, 0.5),
    "floor": np.floor,
    "joined": lambda a: np.concatenate([a, a]),
    "chosen": lambda a: np.where(a > 0, a, 1.0),
    "sorted": np.sort,
    "masked": lambda a: a[a > 0],
    "whole-sums": lambda a: np.rint(8 * a) + np.arange(len(a)),
    "filled": lambda a: np.where(np.isnan(a), 0.0, a).reshape(2, -1).T,
}
# How many magnitudes a result may move where no cancellation takes place.
ROUNDED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "plus": (lambda a: a + 0.3, 1),
    "times": (lambda a: a * 0.3, 1),
    "by-a-number": (lambda a: 0.3 * a, 1),
    "exp": (np.exp, 1),
    "arsinh": (np.arcsinh, 1),
    "normal-cdf": (special.ndtr, 10),
    "student-cdf": (stats.t(5).cdf, 10),
    "quantiles-of-a-student": (lambda a: stats.norm.ppf(stats.t(5).cdf(a)), 400),
    "log-density-of-a-gamma": (lambda a: stats.gamma.logpdf(np.abs(a), 2.5), 10),
    "sum-of-squares": (lambda a: np.sum(a * a), 4),
    "product": (lambda a: (a * a).reshape(2, -1) @ (a * a).reshape(-1, 2), 5),
    "contracted": (lambda a: np.einsum("i,i->", a * a, a * a), 8),
    "in-place": (lambda a: np.multiply(a, 0.3, out=a), 1),
}


def values() -> torch.Tensor:
    """Numbers of both signs that no operation treats in a special way."""
    return torch.tensor([0.7, -1.3, 2.9, 0.11, -0.37, 1.9, 0.53, -2.3], dtype=torch.float64)


def noised(call: Callable[[Any], Any], magnitude: float = MAGNITUDE, seed: int = 0) -> Any:
    """A function of arrays under noise, as a module calls it, and back as a tensor."""
    rounding = RandomRounding(magnitude, seed)
    with rounding, arrays_rounded(rounding):
        return torch.as_tensor(np.asarray(call(values().numpy())))


def clean(call: Callable[[Any], Any]) -> Any:
    """The same without noise."""
    return torch.as_tensor(np.asarray(call(values().numpy())))


def test_distributions_are_left_as_they_were() -> None:
    """After the noise they tell plain arrays, from the methods of their own."""
    before = stats.rv_continuous.cdf
    noised(stats.norm.cdf)
    assert stats.rv_continuous.cdf is before
    assert type(stats.norm.cdf(values().numpy())) is np.ndarray


@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_stay_exact(name: str) -> None:
    """What rounds nothing is the same bit for bit under any noise."""
    assert torch.equal(noised(EXACT[name], 1e-2), clean(EXACT[name]))


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_functions_move_within_their_magnitude(name: str) -> None:
    """What rounds moves, and by no more than the stated multiple of the magnitude."""
    call, multiple = ROUNDED[name]
    exact = clean(call)
    for seed in range(8):  # eight draws of one quantity
        moved = (noised(call, seed=seed) - exact).abs()
        assert moved.max() > 0
        assert (moved <= multiple * MAGNITUDE * (1 + 1e-6) * exact.abs()).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda m: np.linalg.slogdet(m)[1],
        np.linalg.inv,
        lambda m: np.linalg.solve(m, m[0]),
        lambda m: np.linalg.svd(m)[1],
    ],
    ids=["determinant", "inverse", "solution", "singular-values"],
)
def test_factorizations_move_by_their_backward_error(call: Callable[[Any], Any]) -> None:
    """A factorization of an array moves, by about the rounding of a well-conditioned matrix."""

    def of(a: Any) -> Any:
        return call(np.outer(a, a)[:3, :3] + 5 * np.eye(3))

    moved = (noised(of) - clean(of)).abs().max()
    assert 0 < moved < 1e3 * MAGNITUDE


def test_cancellation_shows() -> None:
    """What is lost where numbers cancel within one call shows at its true size."""
    moved = (noised(lambda a: (a + 1e6) - 1e6) - values()).abs().max()
    assert 1e4 * MAGNITUDE < moved < 1e7 * MAGNITUDE


def test_arrays_keep_their_memory() -> None:
    """An array shares its memory with the tensor that gave it, under noise as well."""
    rounding = RandomRounding(MAGNITUDE, 0)
    x = values()
    with rounding, arrays_rounded(rounding):
        x.numpy()[0] = 5.0
        assert isinstance(x.numpy(), RoundedArray)
        assert isinstance(np.asarray(x) + 1, np.ndarray)
    assert x[0] == 5.0
    assert type(x.numpy()) is np.ndarray
