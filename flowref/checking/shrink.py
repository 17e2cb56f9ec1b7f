"""Counterexamples made simple: our own deterministic simplifier.

A shrinker that minimizes under a stochastic tolerance ends on unconvincing margins and long
decimals. This one keeps a step only while the margin stays convincing, and measures many candidates
as the rows of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from flowref.checking.tolerance import VIOLATED, Judgement
from flowref.model import Array, Batch, Support

EVALUATIONS = 200
ROWS = 48
# Of the candidates that look convincing, at most this many in a row are judged surely.
TRIES = 3
# Judges a batch; surely (more noise, beside the point) or roughly, to sort candidates.
Margins = Callable[[Batch, bool], Judgement | None]


def simplify(
    support: Support,
    batch: Batch,
    judgement: Judgement,
    margins: Margins,
    *,
    exact: bool,
    attempts: int = EVALUATIONS,
) -> tuple[Batch, Judgement]:
    """The simplest batch found that still violates, and its judgement.

    The margin may not fall below min(first, max(10, first / 10)); exact laws only need to stay
    violated. ``attempts``: how many candidates may be judged surely, which costs many times as much
    as a rough look.
    """
    batch, judgement = _fewer_rows(batch, judgement, margins)
    if len(batch.x) != 1 or not batch.x.size or not attempts:
        return batch, judgement
    first = float(judgement.margin[judgement.worst()])
    floor = 1.0 if exact or not np.isfinite(first) else min(first, max(10.0, first / 10))
    left = EVALUATIONS
    point, context = batch.x[0], batch.context
    for _ in range(3):
        before = point
        for candidates in _rounds(support, point):
            candidates = candidates[:left]
            left -= len(candidates)
            if not len(candidates):
                break
            chosen, spent = _first_convincing(batch, candidates, context, margins, floor, attempts)
            attempts -= spent
            if chosen is not None:
                point = chosen
        if np.array_equal(before, point) or min(left, attempts) <= 0:
            break
    simple = batch._replace(x=point[None])
    final = margins(simple, True)
    if final is None or not (final.outcome == VIOLATED).any():
        return batch, judgement
    return simple, final


def _fewer_rows(batch: Batch, judgement: Judgement, margins: Margins) -> tuple[Batch, Judgement]:
    """One row if that shows the violation alone, else two, else the batch as it is."""
    worst = judgement.worst()
    others = [row for row in range(len(batch.x)) if row != worst]
    for rows in ([worst], [worst, *others[:1]], [worst, *others[:3]]):
        if len(rows) >= len(batch.x):
            break
        small = batch.rows(np.array(rows))
        found = margins(small, True)
        if found is not None and (found.outcome == VIOLATED).any():
            return small, found
    return batch, judgement


def _first_convincing(
    batch: Batch,
    candidates: Array,
    context: Array | None,
    margins: Margins,
    floor: float,
    attempts: int,
) -> tuple[Array | None, int]:
    """The first candidate, in order of simplicity, that violates by enough: measured together, then
    alone. And the number of those that were judged surely.
    """
    spent = 0
    for start in range(0, len(candidates), ROWS):
        chunk = candidates[start : start + ROWS]
        given = None if context is None else np.repeat(context[:1], len(chunk), axis=0)
        found = margins(Batch(chunk, given, batch.seed), False)
        if found is None:
            continue
        for row in np.flatnonzero((found.outcome == VIOLATED) & (found.margin >= floor))[:TRIES]:
            if spent >= attempts:
                return None, spent
            spent += 1
            alone = margins(
                Batch(chunk[row : row + 1], None if given is None else given[:1], batch.seed), True
            )
            if alone is not None and alone.outcome[0] == VIOLATED and alone.margin[0] >= floor:
                return np.asarray(chunk[row]), spent
    return None, spent


def _rounds(support: Support, point: Array) -> Iterator[Array]:
    """Batches of candidates, each simpler than the point: everything at once first, then one
    coordinate at a time.
    """
    flat = point.reshape(-1)

    def shaped(rows: list[Array]) -> Array:
        kept = [row for row in rows if not np.array_equal(row, flat) and np.isfinite(row).all()]
        if not kept:
            return np.zeros((0, *point.shape))
        stacked = np.stack(kept).reshape(-1, *point.shape)
        return stacked[support.holds(stacked)]

    together = [
        np.zeros_like(flat),
        np.ones_like(flat),
        np.full_like(flat, 0.5),
        np.round(flat),
        np.round(flat * 8) / 8,
    ]
    together += [_digits(flat, 1), _digits(flat, 2), _digits(flat, 3)]
    alone = []
    for place in np.argsort(-np.abs(flat))[:8]:
        single = np.zeros_like(flat)
        single[place] = _digits(flat[place : place + 1], 1)[0]
        alone.append(single)
    yield shaped([*together[:1], *alone, *together[1:]])
    coordinates = np.argsort(-np.abs(flat), kind="stable")[:24]
    singles = []
    for place in coordinates:
        for value in _simpler(float(flat[place])):
            row = flat.copy()
            row[place] = value
            singles.append(row)
    yield shaped(singles)


def _simpler(value: float) -> list[float]:
    """Simpler numbers near a number, simplest first."""
    options = [0.0, 1.0, -1.0, float(np.round(value)), float(np.round(value * 8) / 8)]
    options += [float(_digits(np.array([value]), digits)[0]) for digits in (1, 2, 3)]
    return [
        option
        for option in dict.fromkeys(options)
        if option != value and _cost(option) < _cost(value)
    ]


def _cost(value: float) -> tuple[int, int]:
    """How simple a number is: zero, plus or minus one, then by the length of its shortest decimal."""
    if value == 0:
        return 0, 0
    if abs(value) == 1:
        return 1, 0
    return 2, len(repr(value))


def _digits(values: Array, digits: int) -> Array:
    """Values rounded to a number of significant decimal digits."""
    return np.array([float(f"{value:.{digits}g}") for value in values], dtype=np.float64)
