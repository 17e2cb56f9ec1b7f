"""Difference quotients along a direction, with an error estimate and a test for kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from flowref.model import Array, Residual, Support

# Steps of the difference quotients, relative to 1 + |x| per coordinate.
STEPS_DOWN = (2.0**-10, 2.0**-12, 2.0**-14, 2.0**-16)
# Steps for heavy calls.
FEW_DOWN = (2.0**-12, 2.0**-15)
# A difference counts as a violation only above this many times its error estimate.
DOUBT = 20.0


def unit_directions(shape: tuple[int, ...], seed: int) -> Array:
    """One random direction of unit length per point, in ``shape``, that of the points ``(n,
    ...)``.
    """
    direction = np.random.default_rng(seed).standard_normal(shape)
    flat = direction.reshape(len(direction), -1)
    length = np.linalg.norm(flat, axis=1, keepdims=True) if flat.shape[1] else 1.0
    return np.asarray((flat / length).reshape(shape))


def direction_within_support(x: Array, direction: Array, support: Support | None) -> Array:
    """The direction ``(n, ...)`` with zeros in coordinates whose largest step would approach an
    end of a bounded support.
    """
    if support is None or not support.has_end or support.joint:
        return direction
    flat, (low, high) = x.reshape(len(x), -1), support.ends
    room = np.maximum(np.minimum(flat - low, high - flat), 0.0) / (4 * STEPS_DOWN[0])
    return np.clip(direction, -room.reshape(x.shape), room.reshape(x.shape))


class Quotient(NamedTuple):
    """The derivative along a direction, by differences; arrays ``(n,)``.

    ``error``: its error estimate; ``smooth``: rows where it can be trusted; ``slopes``, ``gaps``:
    estimates at successive steps and their distances, ``(steps, n)``.
    """

    slope: Array
    error: Array
    smooth: Array
    slopes: Array
    gaps: Array

    def confirmed_by_smaller_steps(self, claimed: Array) -> Quotient:
        """With a finer estimate in rows where that confirms ``claimed``: two steps across the same
        kinks agree by chance.
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
        """The residual of autograd's derivative ``along`` against this one, in the rows
        ``judged``.
        """
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
        """The rows in which it is accurate enough to judge a derivative to within ``allowed``,
        ``(n,)``.
        """
        slope, error = np.abs(self.slope), self.error
        finite = np.isfinite(slope) & np.isfinite(allowed)
        return np.asarray(self.smooth & finite & (error < 1e-4 * (1 + slope)))


def quotient(
    measure: Callable[[Array], Array],
    x: Array,
    direction: Array,
    support: Support | None,
    heavy: bool = False,
    together: bool = False,
) -> Quotient:
    """Central differences at several steps: the derivative, its error estimate, and where it can
    be trusted.

    $D = (4 D_{h/2} - D_h)/3$ has error $O(h^4)$; the two successive estimates that agree best are
    used, and their distance is the error. If the one-sided quotients do not converge to each other
    as steps shrink, the point is on or next to a kink and is not compared. ``measure``: points
    ``(n, ...)`` to ``(n,)``; ``together``: it is called once, with ``(k n, ...)``, all points after
    one shift before those after the next.
    """
    rows = len(x)
    inside = np.ones(rows, dtype=bool)
    if support is not None:
        inside = support.holds(x + STEPS_DOWN[0] * direction) & support.holds(
            x - STEPS_DOWN[0] * direction
        )
    # Points that would leave the support are not moved: one of them would make the call reject the
    # batch.
    direction = np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), direction, 0.0)
    steps = FEW_DOWN if heavy else STEPS_DOWN
    shifts = [0.0, *(sign * step for h in steps for step in (h, h / 2) for sign in (1, -1))]
    moved = [x + shift * direction if shift else x for shift in shifts]
    calls = [np.concatenate(moved)] if together else moved
    measured = np.concatenate([measure(points) for points in calls]).reshape(len(moved), rows)
    here, slopes, jumps = measured[0], [], []
    for index, step in enumerate(steps):
        ahead, behind, near_ahead, near_behind = measured[4 * index + 1 : 4 * index + 5]
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
