"""Normal distributions that lean as the latents of one event do: however many entries these have, many of
them fall there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowref.model import Array

# How wide they are beside the latents: the narrower, the better these cover them, and the fewer count where
# there are many entries. The first that is covered is taken.
WIDTHS = (0.7, 0.85)
# Latents beyond so many spreads are left out of what tells how they lean.
FAR = 5.0
# The least share of the variance that a direction has.
LEAST = 1e-8
# So many of its points are looked at, the latents near each being so many; and how much likelier a point
# may be than a latent there, and what share of them more.
LOOKED, NEIGHBORS, LIKELIER, MISSED = 256, 8, 30.0, 0.01


class Leaning(NamedTuple):
    """A normal distribution on events of a shape: its center, flat, and the lower triangular factor of its
    covariance.
    """

    center: Array
    factor: Array

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Points, ``(count, entries)``."""
        return np.asarray(
            self.center + rng.standard_normal((count, len(self.center))) @ self.factor.T
        )

    def log_prob(self, z: Array) -> Array:
        """The log-density of each row of ``(rows, entries)``."""
        far = np.linalg.solve(self.factor, (z - self.center).T)
        size = float(np.log(np.diag(self.factor)).sum())
        return np.asarray(
            -0.5 * (far**2).sum(0) - size - 0.5 * len(self.center) * math.log(2 * math.pi)
        )


def leaning(latents: Array, rng: np.random.Generator) -> Leaning | None:
    """One in the middle of latents, ``(rows, entries)``, which cover it; None where they do not spread on all
    sides.
    """
    center = np.median(latents, 0)
    low, high = np.quantile(latents, (0.25, 0.75), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        near = (np.abs(latents - center) <= FAR * (high - low)).all(1)
    if not (high > low).all() or near.sum() < 2 * latents.shape[1] + 2:
        return None
    covariance = np.atleast_2d(np.cov(latents[near].T))
    sizes = np.sqrt(np.diag(covariance))
    if not (sizes > 0).all():
        return None
    # Told in units of its entries, of which one may be much smaller than another.
    if np.linalg.eigvalsh(covariance / np.outer(sizes, sizes))[0] <= LEAST:
        return None
    factor = np.linalg.cholesky(covariance)
    for width in WIDTHS:
        one = Leaning(center, width * factor)
        if covered(one, latents, rng):
            return one
    return None


def covered(one: Leaning, latents: Array, rng: np.random.Generator) -> bool:
    """Whether latents lie wherever its points do: where they are so rare that none is drawn, as between two
    heaps of them, weights would miss what is there.

    How likely latents are at a point is told by how near the next few of them are.
    """
    entries = len(one.center)
    points = one.draw(LOOKED, rng)
    whitened, there = (np.linalg.solve(one.factor, (z - one.center).T).T for z in (latents, points))
    distances = np.sqrt(np.maximum(_squares(there, whitened), 0.0))
    radius = np.partition(distances, NEIGHBORS - 1, 1)[:, NEIGHBORS - 1]
    ball = 0.5 * entries * math.log(math.pi) - math.lgamma(0.5 * entries + 1)
    with np.errstate(divide="ignore"):
        latent = math.log(NEIGHBORS / len(latents)) - ball - entries * np.log(radius)
    own = -0.5 * (there**2).sum(1) - 0.5 * entries * math.log(2 * math.pi)
    return bool((own - latent > math.log(LIKELIER)).mean() <= MISSED)


def _squares(one: Array, other: Array) -> Array:
    """Squared distances of rows, ``(rows, rows)``."""
    return np.asarray((one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T)
