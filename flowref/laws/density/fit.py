"""A normal density that fits samples: in affine coordinates, or after warping each entry by its
own quantiles, so that samples with any marginals are about standard normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from flowref.laws.common.statistics import Look
from flowref.laws.density.draws import (
    CORRELATED,
    FEWEST,
    FLAT,
    Draws,
    Frame,
    SampledDensity,
    density_samples,
    placing,
    sample_frame,
)
from flowref.model import Array, Undecidable

T = TypeVar("T")
APART = "a normal density that fits its samples does not overlap it enough"

# Standard normal scores of the knots, besides the ends: few enough to be known from a few hundred
# samples.
KNOTS = (-1.8, -1.2, -0.6, 0.0, 0.6, 1.2, 1.8)


@dataclass(frozen=True)
class MarginalWarp:
    """Coordinates y with scores s = y @ axes, where each s_i is a piecewise linear, increasing
    function of x_i.

    ``scores`` (k,), ``knots`` (k, size): the x_i at which s_i takes these scores; ``log_volume``:
    log|det axes|.
    """

    scores: Array
    knots: Array
    axes: Array
    log_volume: float

    def outward(self, y: Array) -> Array:
        """The points with coordinates ``y``, ``(n, size)``."""
        s = np.asarray(y @ self.axes)
        piece = self._pieces(s, np.broadcast_to(self.scores[:, None], self.knots.shape))
        start, slope = self._at(piece)
        return np.asarray(np.take_along_axis(self.knots, piece, 0) + (s - start) / slope)

    def inward(self, flat: Array) -> tuple[Array, Array]:
        """The coordinates of points, ``(n, size)``, and log|det dy/dx|, ``(n,)``."""
        piece = self._pieces(flat, self.knots)
        start, slope = self._at(piece)
        s = start + (flat - np.take_along_axis(self.knots, piece, 0)) * slope
        y = np.linalg.solve(self.axes.T, s.T).T
        return np.asarray(y), np.asarray(np.log(slope).sum(1) - self.log_volume)

    def _pieces(self, flat: Array, knots: Array) -> Array:
        """The index of the piece of each entry, ``(n, size)``; the outer pieces extend beyond the
        ends.
        """
        above = [
            np.searchsorted(k, column, side="right")
            for k, column in zip(knots.T, flat.T, strict=True)
        ]
        return np.asarray(np.clip(np.array(above).T - 1, 0, len(knots) - 2))

    def _at(self, piece: Array) -> tuple[Array, Array]:
        """The score at the start of each piece, and its slope ds/dx, ``(n, size)`` each."""
        steps = np.diff(self.scores)[:, None] / np.diff(self.knots, axis=0)
        return self.scores[piece], np.take_along_axis(steps, piece, 0)


def marginal_quantile_warp(flat: Array) -> MarginalWarp:
    """The coordinates fitted to samples ``(n, size)``. Raises `Undecidable` if samples do not
    spread in every direction.
    """
    flat = flat[np.isfinite(flat).all(1)]
    normal = NormalDist()
    end = normal.inv_cdf(1 - 0.5 / len(flat))
    scores = np.array([-end, *KNOTS, end])
    inner = np.quantile(flat, [normal.cdf(score) for score in KNOTS], axis=0)
    knots = np.stack([flat.min(0), *inner, flat.max(0)])
    if not (np.diff(knots, axis=0) > 0).all():
        raise Undecidable("its samples do not spread in every direction")
    size = flat.shape[1]
    plain = MarginalWarp(scores, knots, np.eye(size), 0.0)
    if size > CORRELATED or size < 2:
        return plain
    values, vectors = np.linalg.eigh(np.cov(plain.inward(flat)[0].T))
    if values.min() < FLAT * values.max():
        raise Undecidable("its samples do not spread in every direction")
    axes = np.sqrt(values)[:, None] * vectors.T
    return MarginalWarp(scores, knots, axes, float(0.5 * np.log(values).sum()))


@dataclass(frozen=True)
class Fitted:
    """A density r that is standard normal in coordinates fitted to samples; ``within``: the box of
    these samples.
    """

    within: Frame
    bend: MarginalWarp | None

    def points(self, y: Array) -> Array:
        """Draws of r from standard normal numbers ``y``, ``(n, size)``."""
        return (self.bend or self.within).outward(y)

    def log_density(self, flat: Array) -> Array:
        """log r, ``(n,)``."""
        log_det: Array | float = -self.within.log_volume
        if self.bend is None:
            at = self.within.inward(flat)
        else:
            at, log_det = self.bend.inward(flat)
        constant = 0.5 * at.shape[1] * math.log(2 * math.pi)
        return np.asarray(-0.5 * (at**2).sum(1) - constant + log_det)


def fitted_density_test(
    flow: SampledDensity, statistic: Callable[[Fitted, Draws, Array], T | None]
) -> Callable[[Look], T]:
    """A statistic of a fitted density, other samples and as many of its own draws, for successive
    looks; if the affine fit gives None, the warped one is used. Raises `Undecidable` if both give
    None.
    """
    ways = [False, True]

    def look_at(look: Look) -> T:
        placed = placing(flow, look.seed + 1, max(look.count, FEWEST))
        draws = density_samples(flow, look.count, look.seed)
        y = np.random.default_rng(look.seed).standard_normal(draws.flat.shape)
        while ways:
            near = Fitted(
                sample_frame(flow, placed), marginal_quantile_warp(placed.flat) if ways[0] else None
            )
            found = statistic(near, draws, near.points(y))
            if found is not None:
                return found
            ways.pop(0)
        raise Undecidable(APART)

    return look_at
