"""Comparison of the results of two calls, or of two histories of one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from flowref.model import (
    Array,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    one_line,
    per_point,
)

P = ParamSpec("P")
T = TypeVar("T")


def flags(bad: object, rows: int, note: str = "", **details: Any) -> Residual:
    """An exact residual: 1 where ``bad``, 0 elsewhere; ``bad`` is one flag or one per row,
    ``(rows,)``.
    """
    value = np.broadcast_to(np.asarray(bad, dtype=np.float64), (rows,))
    return Residual(value.copy(), note=note if value.any() else "", **details)


def attempt(run: Callable[P, T], *inputs: P.args, **named: P.kwargs) -> tuple[T | Any, str]:
    """The result of a call and an empty string, or None and the error as text.

    For laws in which an exception is no violation, or is the subject of the law. `Unsupported` and
    other exceptions of flowref pass through.
    """
    try:
        return run(*inputs, **named), ""
    except (Unsupported, Undecidable):
        raise
    except Exception as error:
        return None, one_line(error, 300)


def met_a_graph(error: str) -> bool:
    """Whether an error is torch's "backward through the graph a second time"."""
    return "backward through the graph a second time" in error


def finite_outcome_rows(out: Mapped, rows: int) -> Array:
    """The rows with finite value and log-det, ``(rows,)``."""
    value = np.asarray(out.value, dtype=np.float64)
    good = (
        np.isfinite(value.reshape(rows, -1)).all(1)
        if len(value) == rows
        else np.zeros(rows, dtype=bool)
    )
    return np.asarray(good & np.isfinite(row_log_dets(out, rows)))


def row_log_dets(out: Mapped, rows: int) -> Array:
    """The log-det of each row, ``(rows,)``; zeros if none is returned."""
    return np.zeros(rows) if out.ladj is None else per_point(out.ladj, rows)


def outcome_gap(first: Mapped, second: Mapped, rows: int, allowed: float = 0.0) -> Array:
    """The difference of two outcomes of one batch, relative to their own size, ``(rows, 2)``:
    value and log-det.

    ``allowed``: an absolute error of the values; log-dets are then not compared, since their error
    is unknown. inf if shapes differ or only the first is finite; nan if the first is not finite.
    """
    one, two = np.asarray(first.value, dtype=np.float64), np.asarray(second.value, dtype=np.float64)
    if one.shape != two.shape or len(one) != rows:
        return np.full((rows, 2), np.inf)
    with np.errstate(all="ignore"):
        one, two = one.reshape(rows, -1), two.reshape(rows, -1)
        size = np.maximum(np.abs(one), np.abs(two)).max(1, initial=0.0)
        apart = np.maximum(np.abs(one - two).max(1, initial=0.0) - allowed * (1 + size), 0.0)
        value = np.where(apart == 0, 0.0, apart / np.where(size > 0, size, 1.0))
        a, b = row_log_dets(first, rows), row_log_dets(second, rows)
        ladj = np.abs(a - b) / (4 + np.abs(a)) if not allowed else np.zeros(rows)
    columns = np.stack([value, ladj], 1)
    columns = np.where(np.isnan(columns), np.inf, columns)
    columns[~finite_outcome_rows(first, rows)] = np.nan
    return columns


def agreement_residual(
    pairs: Sequence[tuple[Mapped, Mapped, float]], rows: int, note: str = "", extra: float = 0.0
) -> Residual:
    """The rounding residual of pairs of outcomes that should agree; ``extra``: a difference added
    to every row.
    """
    worst = np.full(rows, extra)
    for first, second, allowed in pairs:
        worst = np.maximum(worst, outcome_gap(first, second, rows, allowed).max(1))
    good = np.ones(rows, dtype=bool)
    for first, _, _ in pairs:
        good &= finite_outcome_rows(first, rows)
    return Residual(worst, 1.0, decidable=good, note=note if worst[good].any() else "")


def state_gap(first: Mapping[str, Array], second: Mapping[str, Array]) -> float:
    """The largest difference of two states, each tensor relative to its own size; inf if names or
    shapes differ.
    """
    if set(first) != set(second):
        return np.inf
    worst = 0.0
    for name, one in first.items():
        two = second[name]
        if one.shape != two.shape:
            return np.inf
        a, b = np.asarray(one, dtype=np.float64), np.asarray(two, dtype=np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            continue
        with np.errstate(all="ignore"):
            apart = np.abs(np.where(same, 0.0, a - b)).max()
            size = np.abs(np.where(np.isfinite(a), a, 0.0)).max()
        worst = (
            max(worst, float(apart / size) if size else float(apart))
            if np.isfinite(apart)
            else np.inf
        )
    return worst


def changed(first: Mapping[str, Array], second: Mapping[str, Array]) -> list[str]:
    """Names of the tensors that are not bitwise equal in both states, or are missing in one."""
    names = sorted(set(first) ^ set(second))
    return names + [
        name
        for name in sorted(set(first) & set(second))
        if first[name].shape != second[name].shape or not _same_bits(first[name], second[name])
    ]


def _same_bits(first: Array, second: Array) -> bool:
    if np.array_equal(first, second):  # true nearly always, and a third of the time
        return True
    return np.issubdtype(first.dtype, np.inexact) and np.array_equal(first, second, equal_nan=True)


def listed_names(names: Sequence[str]) -> str:
    """Up to four names joined by commas, and the number of the others."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
