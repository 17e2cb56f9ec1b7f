"""The mass of densities of many entries without samples: too much of it is seen, and no density is
accused, nor what is none on all of the space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref.laws.density.importance import mass_at_most_one
from flowref.model import REAL, UNCOUNTED, Array, Batch, Support, Undecidable, Unsupported
from rows import first_of

SEEDS = 5
HALF_LOG = 0.5 * math.log(2 * math.pi)


def density(
    log_prob: Callable[[Array], Array],
    slope: Callable[[Array], Array] | None,
    *shape: int,
    constant: float = 0.0,
) -> Any:
    """A log-density of numpy functions of flat points, off by a constant, as the law sees one."""

    def flat(x: Array) -> Array:
        return x.reshape(len(x), -1)

    def vjp(name: str, x: Array, context: Any, value: Array, ladj: Any) -> Array:
        assert slope is not None
        return np.asarray((slope(flat(x)) * value[:, None]).reshape(x.shape))

    return SimpleNamespace(
        log_prob=lambda x, context=None: log_prob(flat(x)) + constant,
        density_shape=shape,
        context_shape=None,
        density_support=Support.parse(REAL),
        operations=10,
        calls={},
        vjp=vjp if slope is not None else None,
        facts=SimpleNamespace(declared=False, cost=UNCOUNTED),
    )


def normal(size: int, deviation: float = 1.0, constant: float = 0.0) -> Any:
    """A normal density about one."""
    scale = np.geomspace(1, 3, size) * deviation

    def log_prob(x: Array) -> Array:
        y = (x - 1) / scale
        return np.asarray(-0.5 * (y**2).sum(1) - size * HALF_LOG - np.log(scale).sum())

    return density(log_prob, lambda x: -(x - 1) / scale**2, size, constant=constant)


def cauchy(size: int, constant: float = 0.0) -> Any:
    """A product of densities of Cauchy about one."""

    def log_prob(x: Array) -> Array:
        return np.asarray(-np.log(math.pi * (1 + (x - 1) ** 2)).sum(1))

    return density(log_prob, lambda x: -2 * (x - 1) / (1 + (x - 1) ** 2), size, constant=constant)


def two_modes(size: int, constant: float = 0.0) -> Any:
    """Two normal densities, the second of them further off."""

    def parts(x: Array) -> list[Array]:
        return [-0.5 * ((x - at) ** 2).sum(1) for at in (1.0, 3.0)]

    def log_prob(x: Array) -> Array:
        return np.asarray(np.logaddexp(*parts(x)) - size * HALF_LOG - math.log(2))

    def slope(x: Array) -> Array:
        one, other = parts(x)
        share = np.exp(one - np.logaddexp(one, other))[:, None]
        return np.asarray(-(x - 1) * share - (x - 3) * (1 - share))

    return density(log_prob, slope, size, constant=constant)


KINDS: dict[str, Callable[..., Any]] = {
    "normal": lambda constant=0.0: normal(48, constant=constant),
    "narrow": lambda constant=0.0: normal(24, 0.02, constant),
    "wide": lambda constant=0.0: normal(16, 30.0, constant),
    "heavy tails": lambda constant=0.0: cauchy(16, constant),
    "two modes": lambda constant=0.0: two_modes(16, constant),
}


def measured(flow: Any, seed: int) -> tuple[float, float]:
    """The residual, and what is allowed."""
    x = np.random.default_rng(seed).standard_normal((1, *flow.density_shape))
    residual = mass_at_most_one.measure(flow, Batch(x, None, seed))
    return float(residual.value[0]), float(np.max(residual.allowed))


@pytest.mark.parametrize("seed", first_of(range(SEEDS)))
@pytest.mark.parametrize("kind", KINDS)
def test_no_density_is_accused(kind: str, seed: int) -> None:
    """Wherever its mass lies, and however little of it is found."""
    value, allowed = measured(KINDS[kind](), seed)
    assert value <= allowed


@pytest.mark.parametrize("constant", [6.0, 40.0])
@pytest.mark.parametrize("kind", KINDS)
def test_too_much_mass_is_seen(kind: str, constant: float) -> None:
    """As of a constant that is left out."""
    value, allowed = measured(KINDS[kind](constant), 1)
    assert value > allowed


def test_twice_the_mass_of_a_smooth_density_is_seen() -> None:
    """By the product of many runs."""
    value, allowed = measured(normal(32, constant=1.1), 1)
    assert value > allowed


def magnitudes(size: int) -> Any:
    """Exponential magnitudes of points of either sign."""
    return density(lambda x: -np.abs(x).sum(1), lambda x: -np.sign(x), size)


def centered(count: int) -> Any:
    """Particles whose center nobody counts."""

    def rest(x: Array) -> Array:
        y = x.reshape(len(x), count, 3)
        return np.asarray((y - y.mean(1, keepdims=True)).reshape(len(x), -1))

    def log_prob(x: Array) -> Array:
        return np.asarray(-0.5 * (rest(x) ** 2).sum(1) - 3 * (count - 1) * HALF_LOG)

    return density(log_prob, lambda x: -rest(x), count, 3)


def members(count: int) -> Any:
    """Sets of pairs, in whatever order they come."""
    orders = math.lgamma(count + 1)

    def log_prob(x: Array) -> Array:
        return np.asarray(-0.5 * ((x - 1) ** 2).sum(1) - 2 * count * HALF_LOG + orders)

    return density(log_prob, lambda x: -(x - 1), count, 2)


def angles(size: int) -> Any:
    """Angles, which are the same a turn further on."""
    whole = math.log(2 * math.pi * float(np.i0(1.0)))
    return density(lambda x: (np.cos(x - 1) - whole).sum(1), lambda x: -np.sin(x - 1), size)


def cube(size: int) -> Any:
    """A uniform density that does not say where it ends."""
    return density(lambda x: np.zeros(len(x)), np.zeros_like, size)


ELSEWHERE = {
    "magnitudes": (magnitudes(24), "magnitudes"),
    "centered particles": (centered(8), "does not decay"),
    "sets": (members(10), "sets"),
    "angles": (angles(16), "periodic"),
    "cube": (cube(20), r"\?support="),
    "levels": (normal(12, constant=12 * math.log(256)), "levels"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_density_of_other_points_is_not_accused(name: str) -> None:
    """What is none on the whole space has more mass there, and is right."""
    flow, words = ELSEWHERE[name]
    with pytest.raises(Undecidable, match=words):
        measured(flow, 1)


def test_without_gradients_nothing_is_said() -> None:
    """The law waits."""
    with pytest.raises(Unsupported, match="no gradients"):
        measured(density(lambda x: -0.5 * (x**2).sum(1), None, 20), 1)
