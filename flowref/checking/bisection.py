"""Bisection of a batch that raises: the rows that do not raise are still measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.checking.measurement import measure
from flowref.model import Array, Batch, Law, Subject, Undecidable, Unsupported

# The most measurements; rows that are not separated by then count as raising.
BISECTIONS = 24


class Split(NamedTuple):
    """Row numbers that can be measured, row numbers that raise, and the error of the smallest set
    that raises.
    """

    measurable: Array
    raising: Array
    error: Exception


def bisect(law: Law, subject: Subject, batch: Batch, error: Exception) -> Split:
    """Split the rows of a batch whose measurement raised ``error`` by halving it. Rows not
    separated after `BISECTIONS` measurements count as raising.
    """
    measurable: list[int] = []
    raising: list[int] = []
    stack, left, smallest = [np.arange(len(batch.x))], BISECTIONS, len(batch.x)
    while stack:
        rows = stack.pop()
        if left <= 0:
            raising += rows.tolist()
            continue
        left -= 1
        try:
            if len(rows) < len(batch.x):
                measure(law, subject, batch.rows(rows))
                measurable += rows.tolist()
                continue
        except (Unsupported, Undecidable):  # the calls returned, only the law is undecided
            measurable += rows.tolist()
            continue
        except Exception as raised:
            if len(rows) <= smallest:
                error, smallest = raised, len(rows)
        if len(rows) == 1:
            raising += rows.tolist()
        else:
            stack += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
    return Split(_sorted(measurable), _sorted(raising), error)


def _sorted(rows: list[int]) -> Array:
    return np.array(sorted(rows), dtype=int)
