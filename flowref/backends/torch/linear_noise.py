r"""Random rounding, linearized, of calls that are too expensive to repeat: an inverse that takes
one step after the other, and samples drawn by it.

To first order a stable inverse responds to rounding as the map that it inverts does: near a pair $z
= f(x)$ that was computed without noise, the result for $z + \delta$ is $x + J^{-1}(\delta -
\epsilon)$, with $\epsilon$ the change of $f(x)$ under noise and J the Jacobian of f there. The
error of the clean call is not changed, so noise explains none of it. An inverse whose formulas lose
more digits than the map's is rougher: the result of a nearby point shows by how much, and its noise
is scaled up.

If the clean call does not return the point up to rounding, it may be far less stable than an
inverse: an unconverged fixed point, or many nearly singular layers. Then nearby points are
evaluated, and if their results are far off the call is undecidable.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from flowref.backends.torch import derivatives
from flowref.backends.torch.live import Live
from flowref.model import Array, Mapped, Undecidable, derive, per_point

# The largest distance, relative to 1 + |z|, from a point that was computed without noise; and that
# of points that noise moved farther, for which nothing can be decided.
NEAR, ROUGH = 1e-6, 1e-3
# The number of cached pairs per object, and the largest event whose Jacobian is computed for this.
PAIRS, LARGEST = 4, 1024
# The noise is scaled up by this: it stands for that of another algorithm.
LOUDER = 4.0
# The distance of nearby points from one that is not returned exactly, relative to 1 + |z|, and how
# many times farther than the Jacobian predicts their results may lie: a smaller factor underrates
# noise by no more than tolerances allow.
NEARBY, STABLE = 1e-9, 100.0
# A point that is returned this exactly, relative to 1 + |z|, is stable; one that is returned less
# exactly is checked with points as near as noise moves it. If that takes long (in nominal
# nanoseconds), a coarser return suffices.
EXACTLY, NOISE, LONG, NEARLY = 2.0**-49, 2.0**-43, 4e9, 2.0**-40
# The distance at which formulas that lose digits show it, relative to 1 + |z|: within a few of
# their steps nothing changes. And the largest roughness, relative to 1 + |x|: beyond it, the
# inverse iterates.
SHOWN, ROUGHEST = 2.0**-36, 2.0**-34
UNIT = 2.0**-53


class Calls(NamedTuple):
    """How a call is made: with a cached result, or anew with a stream of noise."""

    kept: Callable[..., Mapped]
    anew: Callable[..., Mapped]


@dataclass
class PlainRoundTrip:
    """A result computed without noise, ``(rows, ...)``, and the inverted map at it: value and
    log-det, Jacobian, and gradient of the log-det; ``stable``: the rows in which it responds
    like an inverse; ``own``: the additional rounding per entry.
    """

    given: Array | None
    context: Array | None
    out: Array
    ladj: Any
    there: Mapped | None = None
    jacobian: Array | None = None
    gradient: Array | None = None
    stable: Array | None = None
    own: Array | float = 0.0


def replaceable(live: Live, name: str) -> bool:
    """Whether the noise of a call can be computed from the map that it inverts."""
    if name != "inverse" or not live.facts.cost.of(name).repeats:
        return False
    alike = live.facts.latent_shape in (None, live.facts.event_shape)
    return alike and math.prod(live.facts.event_shape) <= LARGEST


def map_rounded(
    live: Live, calls: Calls, z: Array, moved: Array, context: Array | None, stream: int
) -> Mapped:
    """The inverse ``(n, *event)`` under noise, which moved the points ``z`` ``(n, *event)`` to
    ``moved``; NaN in rows for which nothing can be decided.
    """
    pair = _nearest(live, calls, z, context)
    assert pair.given is not None
    change = moved - pair.given
    x, there = _perturbed_round_trip(live, calls, pair, change, stream)
    far = ~_close(z, pair.given, NEAR)
    far |= ~_stable(live, calls, pair)
    if np.any(pair.own):
        assert live.rounding is not None
        seed, magnitude = live.rounding
        rng = np.random.default_rng(derive(seed, stream))
        x = x + magnitude / UNIT * pair.own * rng.uniform(-1, 1, x.shape)
    if far.any():
        x = np.where(far.reshape(-1, *(1,) * (x.ndim - 1)), np.nan, x)
    if pair.ladj is None or there.ladj is None:
        return Mapped(x, pair.ladj)
    return Mapped(x, pair.ladj - _log_det_change(pair, x, there))


def drawn_back(live: Live) -> bool:
    """Whether the noise of samples can be computed from the map that takes them to latents."""
    return live.dialect.normalizing == "forward" and replaceable(live, "inverse")


def draw_rounded(
    live: Live,
    calls: Calls,
    draw: Callable[[], Any],
    context: Array | None,
    stream: int,
) -> Any:
    """Samples ``(n, *event)`` under noise: those of the clean call, moved as far as rounding moves
    them; their log-densities are those of the same latents.
    """
    with _without_noise(live):
        out = draw()
    x = np.asarray(out.value if isinstance(out, Mapped) else out)
    fits = x.shape[1:] == tuple(live.facts.event_shape)
    if not fits or not np.isfinite(x).all() or (context is not None and len(context) != len(x)):
        return out
    pair = next((one for one in live.plain_pairs if np.array_equal(one.out, x)), None)
    if pair is None:
        pair = PlainRoundTrip(None, context, x, None)
        _cache_pair(live, pair)
    moved, there = _perturbed_round_trip(live, calls, pair, 0.0, stream)
    if not isinstance(out, Mapped):
        return moved
    ladj = out.ladj
    if ladj is not None and there.ladj is not None:
        sign = -1.0 if live.facts.promises.get("ladj") == "inverse" else 1.0
        ladj = ladj + sign * _log_det_change(pair, moved, there)
    return Mapped(moved, ladj)


def _perturbed_round_trip(
    live: Live, calls: Calls, pair: PlainRoundTrip, change: Array | float, stream: int
) -> tuple[Array, Mapped]:
    """The result when the input changes by ``change`` and the inverted map is rounded, and the
    value of that map, under this noise, at the clean result.
    """
    _complete(live, calls, pair)
    assert pair.there is not None and pair.jacobian is not None
    there = calls.anew(live, "forward", pair.out, pair.context, stream)
    rows = len(pair.out)
    rounded = LOUDER * (there.value - pair.there.value)
    total = np.asarray(change - rounded).reshape(rows, -1)
    step = np.full(total.shape, np.nan)
    for row in range(rows):
        with contextlib.suppress(np.linalg.LinAlgError):
            step[row] = np.linalg.solve(pair.jacobian[row], total[row])
    return pair.out + step.reshape(pair.out.shape), there


def _log_det_change(pair: PlainRoundTrip, x: Array, there: Mapped) -> Array:
    """The change of the inverted map's log-det, by the moved point and by its own rounding."""
    assert pair.there is not None and pair.gradient is not None
    rows = len(x)
    along = (pair.gradient * (x - pair.out)).reshape(rows, -1).sum(1)
    own = per_point(there.ladj, rows) - per_point(pair.there.ladj, rows)
    turned = LOUDER * own + along
    return np.asarray(turned if np.size(pair.ladj) in (1, rows) else turned[:, None])


def _complete(live: Live, calls: Calls, pair: PlainRoundTrip) -> None:
    """Computes the fields of the inverted map, without noise."""
    if pair.there is not None:
        return
    with _without_noise(live):
        pair.there = calls.kept(live, "forward", pair.out, pair.context)
        pair.jacobian = derivatives.jacobian(live, "forward", pair.out, pair.context)
        pair.gradient = np.zeros(pair.out.shape)
        if pair.there.ladj is not None:
            with contextlib.suppress(Exception):  # a log-det without a graph is constant
                pair.gradient = derivatives.pull(
                    live, "forward", pair.out, pair.context, None, np.ones(len(pair.out))
                )


def _stable(live: Live, calls: Calls, pair: PlainRoundTrip) -> Array:
    """The rows whose nearby points have results near those that an inverse predicts; rows that are
    returned exactly are as stable as the map.
    """
    if pair.stable is not None:
        return pair.stable
    assert pair.given is not None and pair.there is not None and pair.jacobian is not None
    gone, given = pair.there.value.reshape(pair.given.shape), pair.given
    coarse = live.dtype != torch.float64  # only float64 shows lost digits
    coarse |= live.facts.cost.of("inverse").work.of(2 * len(given)) > LONG
    pair.stable = _close(gone, given, NEARLY if coarse else EXACTLY)
    near = _close(gone, given, NEAR)
    pair.own = np.zeros(pair.out.shape)
    for rows, size in ((near & ~pair.stable, NOISE), (~near, NEARBY)):
        if rows.any():
            part = _round_trip_rows(pair, np.flatnonzero(rows))
            sizes = (size, SHOWN) if size == NOISE and not coarse else (size,)
            nearby = _nearby_results(live, calls, part, sizes)
            pair.stable[rows] = nearby[0].stable
            if len(sizes) > 1:
                pair.own[rows] = np.minimum(nearby[1].apart, ROUGHEST * (1 + np.abs(part.out)))
    return pair.stable


class NearbyResult(NamedTuple):
    """Results of points near those of a pair: distances from the Jacobian's prediction, per entry,
    and the rows in which they are near it.
    """

    apart: Array
    stable: Array


def _nearby_results(
    live: Live, calls: Calls, pair: PlainRoundTrip, sizes: tuple[float, ...]
) -> list[NearbyResult]:
    """Results of clean calls at these distances, each in one direction, all in one call."""
    assert pair.given is not None and pair.jacobian is not None
    rows, times = len(pair.out), len(sizes) + 1
    signs = np.random.default_rng(rows).choice((-1.0, 1.0), size=pair.given.shape)
    changes = [size * (1 + np.abs(pair.given)) * signs for size in sizes]
    asked = np.concatenate([pair.given, *(pair.given + change for change in changes)])
    contexts = None if pair.context is None else np.concatenate([pair.context] * times)
    before = list(live.plain_pairs)
    with _without_noise(live):
        here, *there = calls.kept(live, "inverse", asked, contexts).value.reshape(times, rows, -1)
    live.plain_pairs[:] = before  # these points are not cached
    found = []
    for change, moved in zip(changes, (one - here for one in there), strict=True):
        apart, stable = np.zeros(moved.shape), np.zeros(rows, dtype=bool)
        for row in range(rows):
            with contextlib.suppress(np.linalg.LinAlgError):
                step = np.linalg.solve(pair.jacobian[row], change[row].reshape(-1))
                # Iterations stop within their own tolerance, which must not count.
                least = NEARBY * (1 + np.abs(here[row]).max())
                stable[row] = np.abs(moved[row]).max() <= STABLE * (np.abs(step).max() + least)
                apart[row] = np.nan_to_num(np.abs(moved[row] - step))
        found.append(NearbyResult(apart.reshape(pair.out.shape), stable))
    return found


def _nearest(live: Live, calls: Calls, z: Array, context: Array | None) -> PlainRoundTrip:
    """The clean pairs nearest to some points, row by row; computed now if there are none, even
    among those that noise moved too far.
    """
    kept: list[PlainRoundTrip] = live.plain_pairs
    for pair, near in [(pair, near) for near in (NEAR, ROUGH) for pair in reversed(kept)]:
        chosen = _rows_of(pair, z, context, near)
        if chosen is None:
            continue
        if len(chosen) == len(pair.out) and (chosen == np.arange(len(chosen))).all():
            return pair
        _complete(live, calls, pair)
        _stable(live, calls, pair)
        return _round_trip_rows(pair, chosen)
    with _without_noise(live):
        calls.kept(live, "inverse", z, context)
    for pair in reversed(kept):
        if _rows_of(pair, z, context) is not None:
            return pair
    raise Undecidable("its inverse returns no finite numbers, near which noise could be measured")


def _close(z: Array, given: Array, near: float) -> Array:
    """Which points are near others, row by row; NaN is near nothing."""
    flat, other = z.reshape(len(z), -1), given.reshape(len(given), -1)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(flat - other) <= near * (1 + np.abs(other))).all(-1))


def _rows_of(
    pair: PlainRoundTrip, z: Array, context: Array | None, near: float = NEAR
) -> Array | None:
    """The row of a pair nearest to each point; None if a point has none."""
    if pair.given is None or (context is None) != (pair.context is None):
        return None
    flat, given = z.reshape(len(z), -1), pair.given.reshape(len(pair.given), -1)
    if flat.shape[1] != given.shape[1]:
        return None
    with np.errstate(invalid="ignore"):
        close = (np.abs(flat[:, None] - given[None]) <= near * (1 + np.abs(given[None]))).all(2)
    if context is not None and pair.context is not None:
        same = context.reshape(len(context), 1, -1) == pair.context.reshape(1, len(given), -1)
        close &= same.all(2)
    return np.asarray(close.argmax(1)) if close.any(1).all() else None


def _round_trip_rows(pair: PlainRoundTrip, rows: Array) -> PlainRoundTrip:
    there, ladj = pair.there, None
    assert there is not None and pair.jacobian is not None and pair.gradient is not None
    if there.ladj is not None:
        ladj = np.asarray(there.ladj)[rows] if np.ndim(there.ladj) else there.ladj
    own = pair.ladj
    return PlainRoundTrip(
        None if pair.given is None else pair.given[rows],
        None if pair.context is None else pair.context[rows],
        pair.out[rows],
        np.asarray(own)[rows] if np.ndim(own) else own,
        Mapped(there.value[rows], ladj),
        pair.jacobian[rows],
        pair.gradient[rows],
        None if pair.stable is None else pair.stable[rows],
        pair.own[rows] if isinstance(pair.own, np.ndarray) else pair.own,
    )


def remember(live: Live, z: Array, context: Array | None, out: Mapped) -> None:
    """Caches the result of a clean call at ``z`` ``(n, *event)``."""
    value = np.asarray(out.value)
    if value.shape != z.shape or not np.isfinite(value).all():
        return
    if any(one.given is not None and np.array_equal(one.given, z) for one in live.plain_pairs):
        return
    _cache_pair(live, PlainRoundTrip(z.copy(), context, value.copy(), out.ladj))


def _cache_pair(live: Live, pair: PlainRoundTrip) -> None:
    live.plain_pairs.append(pair)
    del live.plain_pairs[:-PAIRS]


@contextlib.contextmanager
def _without_noise(live: Live) -> Iterator[None]:
    before, live.rounding = live.rounding, None
    try:
        yield
    finally:
        live.rounding = before
