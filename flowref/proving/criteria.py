r"""Criteria of a run: a log-det is that of the Jacobian, two results are equal, one is the
derivative of another, or affine in it.

$(\det J)^2 = (e^{\log\det})^2$ for each point of the batch, and no point depends on another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.proving.arrangements import view
from flowref.proving.exact.arithmetic import sum_of_residues
from flowref.proving.exact.fields import Pair, Words, inverse, minus, plus, times
from flowref.proving.exact.residues import Field, Residues
from flowref.proving.numbers import lifted
from flowref.proving.runs import GraphRun


@dataclass(frozen=True)
class Law:
    """``holds``: a predicate of a run; ``slopes``: the derivatives it needs (see `GraphRun`)."""

    holds: Callable[[GraphRun[Field]], bool]
    slopes: str = ""


def _log_det(run: GraphRun[Field]) -> bool:
    r"""$(\det J)^2 = (e^{\log\det})^2$ for each point, which depends on no other."""
    value, reported = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    blocks = _blocks(run, value)
    if blocks is None:
        return False
    det = _determinants(blocks, run.field.first(1)[..., 0])
    return _log_det_matches(run, value, reported, det, None)


def _log_det_matches(
    run: GraphRun[Field], value: Residues, reported: Any, det: Pair, units: Pair | None
) -> bool:
    """Whether a determinant of each point, in ``units``, is that of a log-det up to its sign."""
    rows, first = run.graph.points[1][0], run.field.first(0)[..., None]
    ladj = lifted(reported, value)
    ladj = (
        sum_of_residues(view(ladj, (rows, -1)), 1)
        if len(ladj.shape) and ladj.shape[0] == rows
        else ladj
    )
    if math.prod(ladj.shape) not in (1, rows):
        return False  # no number for each point
    grown = ladj.exp().top
    re, im = times(grown, grown, run.field.first(ladj.axes))
    right: Pair = (
        re.reshape(run.field.towers, -1),
        None if im is None else im.reshape(run.field.towers, -1),
    )
    left = times(det, det, first[..., 0])
    if units is not None:
        right = times(right, times(units, units, first[..., 0]), first[..., 0])
    return bool(left[0].any(0).all() and _equal_entries(left, right).all())


def _sparse_log_det(run: GraphRun[Field]) -> bool:
    r"""The same for events of many entries, each of which is kept or transformed separately given
    the kept ones: $(\prod_i \partial_i y_i)^2 = (e^{\log\det})^2$. Entries are distinguished by
    the digits of their index.
    """
    value, reported = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    x, rows = run.values[run.graph.points[0]], run.graph.points[1][0]
    if not isinstance(value, Residues) or value.d is None or math.prod(value.shape) != run.size:
        return False
    shape = (run.field.towers, -1, rows, run.size // rows)
    along = x.d.reshape(shape)
    moved = along[0, 0].any(0)
    if not (_entries_by_row(value, rows) == _entries_by_row(x, rows))[..., ~moved].all():
        return False
    count = along.shape[1] - rows
    parts = [None if one is None else one.reshape(shape) for one in (value.d, value.d_im)]
    other = ~np.eye(rows, dtype=bool)
    for part in parts:
        if part is None:
            continue
        if part[:, count:][:, other].any() or part[:, :count][..., ~moved].any():
            return False
        for digit in range(1, count):
            half = along[0, digit].any(0)
            if (
                part[:, digit][..., ~half].any()
                or (part[:, digit][..., half] != part[:, 0][..., half]).any()
            ):
                return False
    q = run.field.first(1)
    re, im = (None if one is None else one[:, 0][..., moved] for one in parts)
    assert re is not None
    det, units = (
        _last_axis_product((re, im), q),
        _last_axis_product((along[:, 0][..., moved], None), q),
    )
    return _log_det_matches(run, value, reported, det, units)


def kept_entries(run: GraphRun[Field]) -> Any:
    """Which entries of an event a call returns unchanged, ``(entries,)``; None if its value is no
    such event.
    """
    value, x = run.values[run.graph.outputs[0].name], run.values[run.graph.points[0]]
    rows = run.graph.points[1][0]
    if not isinstance(value, Residues) or math.prod(value.shape) != run.size:
        return None
    same = _entries_by_row(value, rows) == _entries_by_row(x, rows)
    if value.im is not None:
        same &= value.im[:, 0].reshape(same.shape) == 0
    return same.all((0, 1))


def _entries_by_row(one: Residues, rows: int) -> Any:
    return one.re[:, 0].reshape(one.field.towers, rows, -1)


def _last_axis_product(pair: Pair, q: Words) -> Pair:
    rest: Pair | None = None
    while (size := pair[0].shape[-1]) > 1:
        if size % 2:
            last, pair = _last_axis_slice(pair, size - 1, size), _last_axis_slice(pair, 0, size - 1)
            rest = last if rest is None else times(rest, last, q)
            continue
        half = size // 2
        pair = times(_last_axis_slice(pair, 0, half), _last_axis_slice(pair, half, 2 * half), q)
    re, im = pair if rest is None else times(pair, rest, q)
    return re[..., 0], None if im is None else im[..., 0]


def _last_axis_slice(pair: Pair, start: int, end: int) -> Pair:
    return pair[0][..., start:end], None if pair[1] is None else pair[1][..., start:end]


def _blocks(run: GraphRun[Field], value: Any) -> tuple[Any, Any] | None:
    """The transposed Jacobian of each point, (towers, rows, of, by), in two parts; None if there
    is none, or if a point depends on another.
    """
    rows = run.graph.points[1][0]
    entries = run.size // rows
    if not isinstance(value, Residues) or value.d is None or math.prod(value.shape) != run.size:
        return None
    shape = (run.field.towers, entries + rows, rows, entries)
    parts = [None if one is None else one.reshape(shape) for one in (value.d, value.d_im)]
    other = ~np.eye(rows, dtype=bool)
    if any(one is not None and one[:, entries:][:, other].any() for one in parts):
        return None
    re, im = (None if one is None else np.moveaxis(one[:, :entries], 2, 1) for one in parts)
    return re, im


def _permuted(run: GraphRun[Field]) -> bool:
    """The entries of each point are a permutation of those of another array, the same for all
    points.
    """
    value, x = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    rows = run.graph.points[1][0]
    if not all(isinstance(one, Residues) for one in (value, x)) or value.shape[:1] != (rows,):
        return False
    # Random residues are distinct with the stated probability; rearranged entries have one part.
    given, found = (one.top[0].reshape(run.field.towers, rows, -1) for one in (x, value))
    if given.shape != found.shape or value.top[1] is not None:
        return False
    at, to = (np.argsort(one[0, 0]) for one in (given, found))
    return bool((given[..., at] == found[..., to]).all())


def _pattern(run: GraphRun[Field]) -> bool:
    """The derivatives of each point are zero outside of a pattern, and no point depends on
    another.
    """
    value, zeros = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    parts = _blocks(run, value)
    inside = np.asarray(zeros, bool).T
    return parts is not None and not any(
        one is not None and one[..., inside].any() for one in parts
    )


def _equal_results(run: GraphRun[Field]) -> bool:
    """Two results are equal, or have exponentials with equal squares; exponentials are positive."""
    one, other = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    like = next((each for each in (one, other) if isinstance(each, Residues)), None)
    if math.prod(np.shape(one)) != math.prod(np.shape(other)):
        return False
    if like is None:  # constants
        return bool((np.ravel(one) == np.ravel(other)).all())
    left, right = (view(lifted(each, like), (-1,)) for each in (one, other))
    p = run.field.first(1)
    squares = [times(each.top, each.top, p) for each in (left.exp(), right.exp())]
    same, grown = (
        _equal_entries(*pair) for pair in ((left.top, right.top), (squares[0], squares[1]))
    )
    return bool((same | grown).all())


def _slope(run: GraphRun[Field]) -> bool:
    """The derivative of a number along the directions of a statement is another number."""
    total, reported = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    if not isinstance(total, Residues):
        return False
    slope = lifted(reported, total).top
    zero = np.zeros_like(slope[0])
    found = (zero, None) if total.derivative is None else total.derivative
    return bool(_equal_entries(found, slope).all())


def _affine(run: GraphRun[Field]) -> bool:
    r"""Each column of an array is a fixed affine function of that of another; both are (rows,
    columns).

    The derivative along v is a multiple of v, the same at all points: $\partial y_i v_0 = \partial
    y_0 v_i$, and $(y_i - y_0) v_0 = \partial y_0 (x_i - x_0)$.
    """
    y, x, dy, v, q = _columns(run)
    return _products_agree(dy, _row(v, 0), _row(dy, 0), v, q) and _products_agree(
        _pair_difference(y, _row(y, 0), q),
        _row(v, 0),
        _row(dy, 0),
        _pair_difference(x, _row(x, 0), q),
        q,
    )


def _normalized(run: GraphRun[Field]) -> bool:
    """Each column of an array is affine in that of another, and its sum is the same for all
    points.
    """
    y, x, dy, _, q = _columns(run)
    up, along = _pair_difference(y, _row(y, 0), q), _pair_difference(x, _row(x, 0), q)
    sums = [part.sum(2, dtype=np.uint64) % q[..., 0] for part in dy if part is not None]
    return not any(one.any() for one in sums) and _products_agree(
        up, _row(along, 1), _row(up, 1), along, q
    )


def _columns(run: GraphRun[Field]) -> tuple[Pair, Pair, Pair, Pair, Words]:
    """Two arrays, their derivatives along the directions of a statement, modulo the first primes,
    and these primes.
    """
    y, x = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    y = lifted(y, x)
    zero = np.zeros_like(x.top[0]), None
    return y.top, x.top, y.derivative or zero, x.derivative or zero, run.field.first(2)


def _row(pair: Pair, at: int) -> Pair:
    re, im = (None if part is None else part[:, :, at : at + 1] for part in pair)
    assert re is not None
    return re, im


def _pair_difference(one: Pair, other: Pair, q: Words) -> Pair:
    return plus(one, minus(other, q), q)


def _products_agree(a: Pair, b: Pair, c: Pair, d: Pair, q: Words) -> bool:
    return bool(_equal_entries(times(a, b, q), times(c, d, q)).all())


def _equal_entries(one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    """A mask of equal numbers, each of two parts."""
    zero = np.uint64(0)
    im, other_im = (zero if each[1] is None else each[1] for each in (one, other))
    return (one[0] == other[0]) & (im == other_im)


def _determinants(matrix: tuple[Any, Any], p: Any) -> tuple[Any, Any]:
    """Determinants of (towers, rows, n, n) modulo the first primes, by elimination."""
    re, im = matrix
    re, im = re.copy(), None if im is None else im.copy()
    towers, rows, size, _ = re.shape
    q = p.reshape(towers, 1)
    found: tuple[Any, Any] = (np.ones((towers, rows), np.uint64), None)
    for step in range(size):
        # A zero pivot is exchanged with a row below.
        for at in range(step + 1, size):
            here = (
                re[:, :, step, step] == 0
                if im is None
                else (re[:, :, step, step] == 0) & (im[:, :, step, step] == 0)
            )
            if not here.any():
                break
            for part in (re, im):
                if part is not None:
                    one, other = part[:, :, step].copy(), part[:, :, at].copy()
                    part[:, :, step] = np.where(here[..., None], other, one)
                    part[:, :, at] = np.where(here[..., None], one, other)
        pivot = re[:, :, step, step], None if im is None else im[:, :, step, step]
        found = times(found, pivot, q)
        if step == size - 1:
            break
        by = inverse(pivot, q)
        column = re[:, :, step + 1 :, step], None if im is None else im[:, :, step + 1 :, step]
        row = re[:, :, step, step + 1 :], None if im is None else im[:, :, step, step + 1 :]
        factor = times(
            column, (by[0][..., None], None if by[1] is None else by[1][..., None]), q[..., None]
        )
        less = times(
            (factor[0][..., None], None if factor[1] is None else factor[1][..., None]),
            (row[0][:, :, None], None if row[1] is None else row[1][:, :, None]),
            q[..., None, None],
        )
        wide = q[..., None, None]
        re[:, :, step + 1 :, step + 1 :] = (
            re[:, :, step + 1 :, step + 1 :] + wide - less[0]
        ) % wide
        if im is not None:
            other = np.zeros_like(less[0]) if less[1] is None else less[1]
            im[:, :, step + 1 :, step + 1 :] = (
                im[:, :, step + 1 :, step + 1 :] + wide - other
            ) % wide
    return found


# Name -> criterion.
LAWS = {
    "log-det": Law(_log_det, "entries"),
    "sparse log-det": Law(_sparse_log_det, "halves"),
    "equal": Law(_equal_results),
    "slope": Law(_slope, "along"),
    "pattern": Law(_pattern, "entries"),
    "permuted": Law(_permuted),
    "affine": Law(_affine, "along"),
    "normalized": Law(_normalized, "along"),
}
