"""Distributions on the supports of latents and data of stochastic layers: sampling and
log-densities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flowref.model import Array, Support, Unsupported

# Degrees of freedom of t-distributed proposals, and how much wider than the data they are.
FREEDOM, WIDER = 5.0, 1.5
# The ratio of probabilities of successive integers on an unbounded range.
DECAY = math.exp(-0.5)
# Widths of normal proposals with a covariance, relative to the latents: narrower ones are covered
# better, and have fewer effective points in many dimensions. The first covered one is used.
WIDTHS = (0.7, 0.85)
# Latents more spreads away are left out of the covariance.
FAR = 5.0
# The least share of the variance that a direction must have.
LEAST = 1e-8
# Proposed points that are examined, nearest latents of each; the allowed ratio of densities, and
# the share of points that may exceed it.
LOOKED, NEIGHBORS, LIKELIER, MISSED = 256, 8, 30.0, 0.01


@dataclass(frozen=True)
class Whole(Support):
    """Integers between two exclusive ends, in each coordinate."""

    @classmethod
    def between(cls, low: float, high: float) -> Whole:
        """The integers from the first to the last, which may be infinite."""
        return cls("whole", low - 0.5, high + 0.5)

    def holds(self, x: Array) -> npt.NDArray[np.bool_]:
        """Whether each point consists of such integers, ``(n,)``."""
        counted = (x == np.round(x)).reshape(len(x), -1).all(1)
        return np.asarray(super().holds(x) & counted)

    def __str__(self) -> str:
        return "the whole numbers"


class Points(NamedTuple):
    """A distribution on a support, entry by entry: points ``(n, *shape)`` and log-densities."""

    support: Support
    shape: tuple[int, ...]
    center: Array | float = 0.0
    spread: Array | float = 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Points ``(count, *shape)``."""
        size, kind = (count, *self.shape), _support_kind(self.support)
        if kind == "product":
            columns = [one.draw(rng, count) for one in self._entries()]
            return np.stack(columns, -1).reshape(size)
        if kind == "interval":
            return np.asarray(rng.uniform(*self.support.ends, size))
        t = np.asarray(self.center) + np.asarray(self.spread) * rng.standard_t(FREEDOM, size)
        if kind in ("above", "below"):
            return _unfolded(self.support, np.abs(t))
        return np.sort(t, -1) if kind == "ordered" else t

    def log_prob(self, x: Array) -> Array:
        """The log-density of each row, ``(n,)``."""
        kind = _support_kind(self.support)
        if kind == "product":
            columns = np.moveaxis(x.reshape(len(x), -1), -1, 0)
            found = [one.log_prob(c) for one, c in zip(self._entries(), columns, strict=True)]
            return np.asarray(np.sum(found, 0))
        if kind == "interval":
            each = np.full(x.shape, -math.log(self.support.high - self.support.low))
        else:
            folded = kind in ("above", "below")
            spread = np.asarray(self.spread, dtype=np.float64)
            t = ((_distance_from_end(self.support, x) if folded else x) - self.center) / spread
            each = log_t(t) - np.log(spread) + (math.log(2) if folded else 0.0)
        total = each.reshape(len(x), -1).sum(1)
        orders = (
            math.prod(self.shape[:-1]) * math.lgamma(self.shape[-1] + 1) if kind == "ordered" else 0
        )
        return np.asarray(total + orders)

    def _entries(self) -> list[Points]:
        """One distribution per entry of a product."""
        some = [np.broadcast_to(one, self.shape).ravel() for one in (self.center, self.spread)]
        each = zip(self.support.coordinates, *some, strict=True)
        return [Points(support, (), center, spread) for support, center, spread in each]


def log_t(t: Array) -> Array:
    """The log-density of Student's t, entry by entry."""
    constant = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2)
    constant -= 0.5 * math.log(FREEDOM * math.pi)
    return np.asarray(constant - (FREEDOM + 1) / 2 * np.log1p(t**2 / FREEDOM))


def normal_on(support: Support, shape: tuple[int, ...], z: Array) -> Array:
    """The log-density ``(n,)`` of a normalized distribution on a support: standard normal, folded
    or sorted if needed, uniform between two ends, and geometric on unbounded integers; -inf
    outside.
    """
    kind, flat = _support_kind(support), z.reshape(len(z), -1)
    if kind == "product":
        columns = zip(support.coordinates, flat.T, strict=True)
        return np.asarray(np.sum([normal_on(one, (), column) for one, column in columns], 0))
    if kind == "whole":
        low, high = (math.isfinite(end) for end in support.ends)
        if low and high:
            each = np.full(flat.shape, -math.log(support.high - support.low))
        elif low or high:
            steps = flat - support.low - 0.5 if low else support.high - 0.5 - flat
            each = math.log1p(-DECAY) + math.log(DECAY) * steps
        else:
            each = math.log((1 - DECAY) / (1 + DECAY)) + math.log(DECAY) * np.abs(flat)
        return np.where(support.holds(flat), each.sum(1), -np.inf)
    if kind == "interval":
        inside = ((flat >= support.low) & (flat <= support.high)).all(1)
        return np.where(inside, -flat.shape[1] * math.log(support.high - support.low), -np.inf)
    folded = kind in ("above", "below")
    shifted = _distance_from_end(support, flat) if folded else flat
    total = -0.5 * (shifted**2 + math.log(2 * math.pi)).sum(1)
    if folded:
        total = np.where((shifted >= 0).all(1), total + flat.shape[1] * math.log(2), -np.inf)
    if kind == "ordered":
        increasing = (np.diff(z, axis=-1) >= 0).reshape(len(z), -1).all(1)
        orders = math.prod(shape[:-1]) * math.lgamma(shape[-1] + 1)
        total = np.where(increasing, total + orders, -np.inf)
    return np.asarray(total)


def drawn_on(
    support: Support, shape: tuple[int, ...], rng: np.random.Generator, count: int
) -> Array:
    """Points ``(count, *shape)`` of the distribution of `normal_on`."""
    kind, size = _support_kind(support), (count, *shape)
    if kind == "product":
        columns = [drawn_on(one, (), rng, count) for one in support.coordinates]
        return np.stack(columns, -1).reshape(size)
    if kind == "whole":
        return _whole_numbers(support, size, rng)
    if kind == "interval":
        return np.asarray(rng.uniform(*support.ends, size))
    z = rng.standard_normal(size)
    if kind in ("above", "below"):
        return _unfolded(support, np.abs(z))
    return np.sort(z, -1) if kind == "ordered" else z


def whole_entries(support: Support, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The entries of an event that are integers, ``(*shape)``."""
    if support.coordinates:
        each = [isinstance(one, Whole) for one in support.coordinates]
        return np.array(each, dtype=bool).reshape(shape)
    return np.full(shape, isinstance(support, Whole))


def with_whole(support: Support, columns: Array) -> Support:
    """The support restricted to integers in entries whose latents ``(rows, entries)`` all are."""
    if support.kind in ("ordered", "simplex") or not len(columns):
        return support
    each = list(support.coordinates or [support] * columns.shape[1])
    for index, entry in enumerate(columns.T):
        if not (entry == np.round(entry)).all() or not (entry != entry[0]).any():
            continue
        low, high = each[index].low, each[index].high
        # Of 256 levels declared as (0, 256) the last is 255.
        last = math.floor(high) - (entry.max() < high) if math.isfinite(high) else high
        each[index] = Whole.between(math.ceil(low) if math.isfinite(low) else low, last)
    if not any(isinstance(one, Whole) for one in each):
        return support
    return Support.product(each)


def _whole_numbers(support: Support, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = support.low + 0.5, support.high - 0.5
    if math.isfinite(low) and math.isfinite(high):
        return rng.integers(int(low), int(high) + 1, size).astype(np.float64)
    steps = rng.geometric(1 - DECAY, size) - 1.0
    if math.isfinite(low) or math.isfinite(high):
        return np.asarray(low + steps if math.isfinite(low) else high - steps)
    return np.asarray(steps - (rng.geometric(1 - DECAY, size) - 1.0))


def _distance_from_end(support: Support, x: Array) -> Array:
    return np.asarray(x - support.low if math.isfinite(support.low) else support.high - x)


def _unfolded(support: Support, far: Array) -> Array:
    return np.asarray(support.low + far if math.isfinite(support.low) else support.high - far)


def _support_kind(support: Support) -> str:
    """The kind of distribution for a support. Raises `Unsupported` if there is none."""
    if support.coordinates:
        return "product"
    if support.kind in ("ordered", "whole"):
        return support.kind
    if support.kind == "simplex":
        raise Unsupported(f"no distribution is known on {support}")
    low, high = math.isfinite(support.low), math.isfinite(support.high)
    if low and high:
        return "interval"
    return "above" if low else "below" if high else "line"


class Leaning(NamedTuple):
    """A normal distribution on events: its center, flat, and the Cholesky factor of its
    covariance.
    """

    center: Array
    factor: Array

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Points ``(count, entries)``."""
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
    """A normal distribution in the middle of latents ``(rows, entries)`` that cover it; None if
    their covariance is singular or they do not cover it.
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
    # Scaled by the entries, which may differ much in size.
    if np.linalg.eigvalsh(covariance / np.outer(sizes, sizes))[0] <= LEAST:
        return None
    factor = np.linalg.cholesky(covariance)
    for width in WIDTHS:
        one = Leaning(center, width * factor)
        if covered(one, latents, rng):
            return one
    return None


def covered(one: Leaning, latents: Array, rng: np.random.Generator) -> bool:
    """Whether latents lie wherever its points do: in gaps, as between two clusters, weights would
    miss mass.

    The density of latents at a point is estimated by the distance of the next few.
    """
    entries = len(one.center)
    points = one.draw(LOOKED, rng)
    whitened, there = (np.linalg.solve(one.factor, (z - one.center).T).T for z in (latents, points))
    squares = (there**2).sum(1)[:, None] + (whitened**2).sum(1) - 2 * there @ whitened.T
    distances = np.sqrt(np.maximum(squares, 0.0))
    radius = np.partition(distances, NEIGHBORS - 1, 1)[:, NEIGHBORS - 1]
    ball = 0.5 * entries * math.log(math.pi) - math.lgamma(0.5 * entries + 1)
    with np.errstate(divide="ignore"):
        latent = math.log(NEIGHBORS / len(latents)) - ball - entries * np.log(radius)
    own = -0.5 * (there**2).sum(1) - 0.5 * entries * math.log(2 * math.pi)
    return bool((own - latent > math.log(LIKELIER)).mean() <= MISSED)
