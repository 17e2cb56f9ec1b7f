r"""Random rounding of calls that are too dear to be made again: an inverse that takes one step after
the other, and samples drawn by it.

To first order an inverse that is stable answers to rounding as the map that it inverts does: near a
pair $z = f(x)$ that was computed plainly, what comes back for $z + \delta$ is
$x + J^{-1}(\delta - \epsilon)$, with $\epsilon$ the change of $f(x)$ under noise and J the Jacobian of f
there. What the plain call is off by stays as it is, so that noise explains no error of it. An inverse whose
formulas lose digits that the map's do not is rougher than that: what comes back of a point beside it shows
by how much, and is rounded as much more.

Where the plain call does not go back to rounding, it may be far less stable than any inverse: a fixed
point that is not reached, or many layers of which each is nearly singular. Beside it lies another call,
and where that is far off nothing is told.
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

# How near, relative to 1 + |z|, a point lies to one that was computed plainly; and how near one that noise
# moved farther than that, of which nothing can be told.
NEAR, ROUGH = 1e-6, 1e-3
# Pairs of one object that are kept, and the largest event whose Jacobian is made for this.
PAIRS, LARGEST = 4, 1024
# Its noise is taken so many times as large: it stands for that of another algorithm.
LOUDER = 4.0
# How far beside a point that was not gone back to another one is asked about, relative to 1 + |z|, and
# how many times farther than an inverse takes it what comes back of it may lie: less is noise that is
# underrated by no more than tolerances have room for.
BESIDE, STABLE = 1e-9, 100.0
# A point that is gone back to so nearly, relative to 1 + |z|, leaves no doubt; one that is near, but not so
# near, is asked about as far beside as noise moves it. Where that takes long (in nominal nanoseconds) less
# is near enough.
EXACTLY, NOISE, LONG, NEARLY = 2.0**-49, 2.0**-43, 4e9, 2.0**-40
# How far beside a point formulas that lose digits show it, relative to 1 + |z|: nearer than a few of their
# steps nothing changes at all. And the most that counts for such, relative to 1 + |x|: what is rougher
# iterates.
SHOWN, ROUGHEST = 2.0**-36, 2.0**-34
UNIT = 2.0**-53


class Calls(NamedTuple):
    """How a call is made: so that its result is kept, and anew, with noise of a stream."""

    kept: Callable[..., Mapped]
    anew: Callable[..., Mapped]


@dataclass
class PlainRoundTrip:
    """What a call gave plainly, ``(rows, ...)``, and about the map that it goes back, at what it
    gave: its value and log-det, its Jacobian, and the gradient of the log-det; ``stable``: in which rows
    it answers about as an inverse does; ``own``: by how much more than the map it is rounded, per entry.
    """

    given: Array | None
    context: Array | None
    out: Array
    beside: Any
    there: Mapped | None = None
    jacobian: Array | None = None
    gradient: Array | None = None
    stable: Array | None = None
    own: Array | float = 0.0


def replaceable(live: Live, name: str) -> bool:
    """Whether noise of a call is that of the map that it goes back."""
    if name != "inverse" or not live.facts.cost.of(name).repeats:
        return False
    alike = live.facts.latent_shape in (None, live.facts.event_shape)
    return alike and math.prod(live.facts.event_shape) <= LARGEST


def map_rounded(
    live: Live, calls: Calls, z: Array, moved: Array, context: Array | None, stream: int
) -> Mapped:
    """An inverse under noise, which moved the points that it is asked about."""
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
    if pair.beside is None or there.ladj is None:
        return Mapped(x, pair.beside)
    return Mapped(x, pair.beside - _log_det_change(pair, x, there))


def drawn_back(live: Live) -> bool:
    """Whether noise of samples is that of the map that takes them to latents."""
    return live.dialect.normalizing == "forward" and replaceable(live, "inverse")


def draw_rounded(
    live: Live,
    calls: Calls,
    draw: Callable[[], Any],
    context: Array | None,
    stream: int,
) -> Any:
    """Samples under noise: those of the plain call, and as far beside them as rounding takes them;
    the log-densities beside them are those of the same latents.
    """
    with _plainly(live):
        out = draw()
    x = np.asarray(out.value if isinstance(out, Mapped) else out)
    fits = x.shape[1:] == tuple(live.facts.event_shape)
    if not fits or not np.isfinite(x).all() or (context is not None and len(context) != len(x)):
        return out
    pair = next((one for one in live.plain_pairs if np.array_equal(one.out, x)), None)
    if pair is None:
        pair = PlainRoundTrip(None, context, x, None)
        _keep(live, pair)
    moved, there = _perturbed_round_trip(live, calls, pair, 0.0, stream)
    if not isinstance(out, Mapped):
        return moved
    beside = out.ladj
    if beside is not None and there.ladj is not None:
        sign = -1.0 if live.facts.promises.get("ladj") == "inverse" else 1.0
        beside = beside + sign * _log_det_change(pair, moved, there)
    return Mapped(moved, beside)


def _perturbed_round_trip(
    live: Live, calls: Calls, pair: PlainRoundTrip, change: Array | float, stream: int
) -> tuple[Array, Mapped]:
    """What comes back where what went in changed by so much and the map back is rounded; and what
    that map gives under this noise at the plain result.
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
    """By how much the log-det of the map back changed, with the point and by its own rounding."""
    assert pair.there is not None and pair.gradient is not None
    rows = len(x)
    along = (pair.gradient * (x - pair.out)).reshape(rows, -1).sum(1)
    own = per_point(there.ladj, rows) - per_point(pair.there.ladj, rows)
    turned = LOUDER * own + along
    return np.asarray(turned if np.size(pair.beside) in (1, rows) else turned[:, None])


def _complete(live: Live, calls: Calls, pair: PlainRoundTrip) -> None:
    """Fill in what is known of the map back, computed plainly."""
    if pair.there is not None:
        return
    with _plainly(live):
        pair.there = calls.kept(live, "forward", pair.out, pair.context)
        pair.jacobian = derivatives.jacobian(live, "forward", pair.out, pair.context)
        pair.gradient = np.zeros(pair.out.shape)
        if pair.there.ladj is not None:
            with contextlib.suppress(Exception):  # a log-det without a graph is constant
                pair.gradient = derivatives.pull(
                    live, "forward", pair.out, pair.context, None, np.ones(len(pair.out))
                )


def _stable(live: Live, calls: Calls, pair: PlainRoundTrip) -> Array:
    """In which rows points beside come back about where an inverse takes them; those that are gone back
    to are as stable as the map is.
    """
    if pair.stable is not None:
        return pair.stable
    assert pair.given is not None and pair.there is not None and pair.jacobian is not None
    gone, given = pair.there.value.reshape(pair.given.shape), pair.given
    coarse = live.dtype != torch.float64  # digits that are lost are seen in none but these
    coarse |= live.facts.cost.of("inverse").work.of(2 * len(given)) > LONG
    pair.stable = _close(gone, given, NEARLY if coarse else EXACTLY)
    near = _close(gone, given, NEAR)
    pair.own = np.zeros(pair.out.shape)
    for rows, size in ((near & ~pair.stable, NOISE), (~near, BESIDE)):
        if rows.any():
            part = _round_trip_rows(pair, np.flatnonzero(rows))
            sizes = (size, SHOWN) if size == NOISE and not coarse else (size,)
            beside = _nearby_results(live, calls, part, sizes)
            pair.stable[rows] = beside[0].stable
            if len(sizes) > 1:
                pair.own[rows] = np.minimum(beside[1].apart, ROUGHEST * (1 + np.abs(part.out)))
    return pair.stable


class Beside(NamedTuple):
    """What comes back of points beside those of a pair: how far from where the Jacobian takes it, per
    entry, and in which rows that is about there.
    """

    apart: Array
    stable: Array


def _nearby_results(
    live: Live, calls: Calls, pair: PlainRoundTrip, sizes: tuple[float, ...]
) -> list[Beside]:
    """What a plain call gives so far beside, each in one direction, all in one call."""
    assert pair.given is not None and pair.jacobian is not None
    rows, times = len(pair.out), len(sizes) + 1
    signs = np.random.default_rng(rows).choice((-1.0, 1.0), size=pair.given.shape)
    changes = [size * (1 + np.abs(pair.given)) * signs for size in sizes]
    asked = np.concatenate([pair.given, *(pair.given + change for change in changes)])
    contexts = None if pair.context is None else np.concatenate([pair.context] * times)
    before = list(live.plain_pairs)
    with _plainly(live):
        here, *there = calls.kept(live, "inverse", asked, contexts).value.reshape(times, rows, -1)
    live.plain_pairs[:] = before  # these points are no one's
    found = []
    for change, moved in zip(changes, (one - here for one in there), strict=True):
        apart, stable = np.zeros(moved.shape), np.zeros(rows, dtype=bool)
        for row in range(rows):
            with contextlib.suppress(np.linalg.LinAlgError):
                step = np.linalg.solve(pair.jacobian[row], change[row].reshape(-1))
                # Iterations stop within an accuracy of their own, at which nobody is to stumble.
                least = BESIDE * (1 + np.abs(here[row]).max())
                stable[row] = np.abs(moved[row]).max() <= STABLE * (np.abs(step).max() + least)
                apart[row] = np.nan_to_num(np.abs(moved[row] - step))
        found.append(Beside(apart.reshape(pair.out.shape), stable))
    return found


def _nearest(live: Live, calls: Calls, z: Array, context: Array | None) -> PlainRoundTrip:
    """The pair that was computed plainly next to some points, row by row; computed now, if there is
    none, not even beside what noise has moved too far.
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
    with _plainly(live):
        calls.kept(live, "inverse", z, context)
    for pair in reversed(kept):
        if _rows_of(pair, z, context) is not None:
            return pair
    raise Undecidable("its inverse gives no numbers that noise could be measured beside")


def _close(z: Array, given: Array, near: float) -> Array:
    """Which points lie so near to others, row by row; those that are no numbers lie nowhere."""
    flat, other = z.reshape(len(z), -1), given.reshape(len(given), -1)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(flat - other) <= near * (1 + np.abs(other))).all(-1))


def _rows_of(
    pair: PlainRoundTrip, z: Array, context: Array | None, near: float = NEAR
) -> Array | None:
    """The rows of a pair next to some points, one each; None where one has none."""
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
    """Some rows of a pair."""
    there, ladj = pair.there, None
    assert there is not None and pair.jacobian is not None and pair.gradient is not None
    if there.ladj is not None:
        ladj = np.asarray(there.ladj)[rows] if np.ndim(there.ladj) else there.ladj
    beside = pair.beside
    return PlainRoundTrip(
        None if pair.given is None else pair.given[rows],
        None if pair.context is None else pair.context[rows],
        pair.out[rows],
        np.asarray(beside)[rows] if np.ndim(beside) else beside,
        Mapped(there.value[rows], ladj),
        pair.jacobian[rows],
        pair.gradient[rows],
        None if pair.stable is None else pair.stable[rows],
        pair.own[rows] if isinstance(pair.own, np.ndarray) else pair.own,
    )


def remember(live: Live, z: Array, context: Array | None, out: Mapped) -> None:
    """Enter what a call gave plainly."""
    value = np.asarray(out.value)
    if value.shape != z.shape or not np.isfinite(value).all():
        return
    if any(one.given is not None and np.array_equal(one.given, z) for one in live.plain_pairs):
        return
    _keep(live, PlainRoundTrip(z.copy(), context, value.copy(), out.ladj))


def _keep(live: Live, pair: PlainRoundTrip) -> None:
    live.plain_pairs.append(pair)
    del live.plain_pairs[:-PAIRS]


@contextlib.contextmanager
def _plainly(live: Live) -> Iterator[None]:
    """Without noise."""
    before, live.rounding = live.rounding, None
    try:
        yield
    finally:
        live.rounding = before
