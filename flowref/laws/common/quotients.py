"""Difference quotients along a direction, with an error estimate and a test for kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flowref.model import Array, Residual, Support

# Steps of the difference quotients, relative to 1 + |x| coordinate by coordinate.
STEPS_DOWN = (2.0**-10, 2.0**-12, 2.0**-14, 2.0**-16)
# Those of heavy calls.
FEW_DOWN = (2.0**-12, 2.0**-15)
# A difference quotient accuses only above this many times its own error estimate.
DOUBT = 20.0


def unit_directions(shape: tuple[int, ...], seed: int) -> Array:
    """A direction of unit length per point."""
    direction = np.random.default_rng(seed).standard_normal(shape)
    flat = direction.reshape(len(direction), -1)
    length = np.linalg.norm(flat, axis=1, keepdims=True) if flat.shape[1] else 1.0
    return np.asarray((flat / length).reshape(shape))


def direction_within_support(x: Array, direction: Array, support: Support | None) -> Array:
    """A direction, cut down in the coordinates in which the largest step would come near an end of
    a bounded set.
    """
    if support is None or not support.bounded or support.joint:
        return direction
    flat, (low, high) = x.reshape(len(x), -1), support.ends
    room = np.maximum(np.minimum(flat - low, high - flat), 0.0) / (4 * STEPS_DOWN[0])
    return np.clip(direction, -room.reshape(x.shape), room.reshape(x.shape))


class Quotient(NamedTuple):
    """The derivative along a direction, by differences, one row per point.

    ``error``: its error estimate. ``smooth``: where it can be trusted. ``slopes``, ``gaps``: the estimates at
    successive steps, and how far each is from the one before.
    """

    slope: Array
    error: Array
    smooth: Array
    slopes: Array
    gaps: Array

    def beside(self, claimed: Array) -> Quotient:
        """The same, but for a finer estimate where one sides with what is claimed: two steps that straddle the
        same kinks agree by chance.
        """
        sides = np.abs(claimed - self.slopes[1:]) <= DOUBT * self.gaps
        finer = np.arange(len(self.gaps))[:, None] >= _nan_to_inf(self.gaps).argmin(0)
        found = sides & finer
        at, every = found.argmax(0), np.arange(len(claimed))
        believed = found.any(0)
        return self._replace(
            slope=np.where(believed, self.slopes[at + 1, every], self.slope),
            error=np.where(believed, self.gaps[at, every], self.error),
        )

    def residual(
        self, along: Array, allowed: Array, judged: Array, note: str, trivial: Array | None = None
    ) -> Residual:
        """Autograd's derivative less this one, where ``judged``."""
        return Residual(
            np.where(judged, along - self.slope, 0.0),
            1 + np.abs(self.slope),
            allowed=np.where(judged, allowed, 0.0),
            decidable=judged,
            trivial=trivial,
            observed={"autograd": along, "difference": self.slope},
            note=note,
        )

    def resolved(self, allowed: Array) -> Array:
        """Where it decides whether another number is the derivative."""
        slope, error = np.abs(self.slope), self.error
        finite = np.isfinite(slope) & np.isfinite(allowed)
        return np.asarray(self.smooth & finite & (error < 1e-4 * (1 + slope)))


def quotient(
    measure: Callable[[Array], Array],
    x: Array,
    direction: Array,
    support: Support | None,
    heavy: bool = False,
) -> Quotient:
    r"""Central differences at several step sizes: the derivative, its error estimate, and where it
    can be trusted.

    $D = (4 D_{h/2} - D_h)/3$ has error $O(h^4)$; of the estimates at successive steps the two that
    agree best are taken, and their distance is the error. Where the two one-sided quotients do not
    approach each other as steps shrink, the point is on a kink or beside one, and there is no
    derivative to compare with.
    """
    rows = len(x)
    inside = np.ones(rows, dtype=bool)
    if support is not None:
        inside = support.holds(x + STEPS_DOWN[0] * direction) & support.holds(
            x - STEPS_DOWN[0] * direction
        )
    # Points that would leave the set stay where they are: a call refuses a whole batch for one of
    # them.
    direction = np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), direction, 0.0)
    here = measure(x)
    slopes, jumps = [], []
    for step in FEW_DOWN if heavy else STEPS_DOWN:
        ahead, behind = measure(x + step * direction), measure(x - step * direction)
        near_ahead, near_behind = (
            measure(x + step / 2 * direction),
            measure(x - step / 2 * direction),
        )
        wide, narrow = (ahead - behind) / (2 * step), (near_ahead - near_behind) / step
        slopes.append((4 * narrow - wide) / 3)
        jumps.append(np.abs((ahead - here) / step - (here - behind) / step))
    stacked = np.stack(slopes)
    gaps = np.abs(np.diff(stacked, axis=0))
    best = _nan_to_inf(gaps).argmin(0)
    every = np.arange(rows)
    slope, error = stacked[best + 1, every], gaps[best, every]
    smooth = jumps[-1] <= 0.25 * jumps[0] + 1e-6 * (1 + np.abs(slope))
    return Quotient(slope, error, inside & smooth, stacked, gaps)


def _nan_to_inf(gaps: Array) -> Array:
    return np.where(np.isfinite(gaps), gaps, np.inf)
