"""What the data sets of points really are: their densities, so that a flow can be compared with the
best that is possible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flowref.training.data import DRAWN

Values = NDArray[Any]
NOISE, PLACES = 0.05, 1500


def curves(name: str) -> Values:
    """Points close together on the two curves that moons or circles lie about."""
    if name == "moons":
        angle = (np.arange(PLACES) + 0.5) / PLACES * np.pi
        upper = np.stack([np.cos(angle), np.sin(angle)], 1)
        return np.concatenate([upper, np.array([1.0, 0.5]) - upper])
    angle = (np.arange(PLACES) + 0.5) / PLACES * 2 * np.pi
    outer = np.stack([np.cos(angle), np.sin(angle)], 1)
    return np.concatenate([outer, 0.5 * outer])


def mixture(points: Values, centers: Values, deviation: float) -> Values:
    """The log-density of round normal distributions about centers, all as likely."""
    found = []
    for chunk in np.array_split(points, max(len(points) * len(centers) // 3_000_000, 1)):
        squares = ((chunk[:, None] - centers) ** 2).sum(-1) / (2 * deviation**2)
        found.append(logsumexp(-squares, axis=1))
    return np.concatenate(found) - math.log(len(centers) * 2 * math.pi * deviation**2)


def log_density(name: str, points: Values) -> Values:
    """The log-density that the points of a data set are drawn from, in nats; minus infinity where
    there are none.
    """
    if name in ("moons", "circles"):
        return mixture(points, curves(name), NOISE)
    if name == "blobs":
        return mixture(points, np.random.RandomState(8).uniform(-10, 10, (3, 2)), 1.0)
    if name == "pair":
        return mixture(points, np.array([[-3.0, 0.0], [3.0, 0.0]]), 0.4)
    if name == "random":
        return np.where(((points >= 0) & (points < 1)).all(1), 0.0, -np.inf)
    assert name == "checkerboard"
    squares = np.floor((points + 4) / 2)
    dark = ((squares >= 0) & (squares < 4)).all(1) & (squares.sum(1) % 2 == 0)
    return np.where(dark, -math.log(32), -np.inf)


def independent(name: str, points: int, seed: int) -> Values:
    """Points drawn one by one from that density, by another way than the data set.

    The generators of scikit-learn place the points of curves at equal steps and give each blob its
    share: such sets are more like each other than independent draws are.
    """
    random = np.random.RandomState(10_000 + seed)
    if name in ("moons", "circles"):
        angle, second = random.uniform(size=points) * np.pi, random.randint(2, size=points)
        if name == "circles":
            angle = 2 * angle
        on = np.stack([np.cos(angle), np.sin(angle)], 1)
        other = np.array([1.0, 0.5]) - on if name == "moons" else 0.5 * on
        return np.where(second[:, None] == 1, other, on) + NOISE * random.normal(size=(points, 2))
    if name == "blobs":
        centers = np.random.RandomState(8).uniform(-10, 10, (3, 2))
        return centers[random.randint(3, size=points)] + random.normal(size=(points, 2))
    return DRAWN[name](points, 10_000 + seed)
