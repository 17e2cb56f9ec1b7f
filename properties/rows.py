"""Rows of a table of which some are checked in every run, and all of them by `tox -e deep` as well."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest

DEEP = pytest.mark.deep


def one_of_each(rows: Iterable[Any], kind: Callable[[Any], Hashable]) -> list[Any]:
    """The first row of each kind as it is, the others marked ``deep``. A row of several arguments is a
    tuple.
    """
    seen: set[Hashable] = set()
    marked = []
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        marked.append(pytest.param(*values, marks=[DEEP] if kind(row) in seen else []))
        seen.add(kind(row))
    return marked


def first_of(rows: Iterable[Any]) -> list[Any]:
    """Rows that are alike, as seeds are: all but the first are marked ``deep``."""
    return one_of_each(rows, lambda _: None)


def crossed(*columns: Sequence[Any]) -> list[Any]:
    """Every combination of the values of several arguments; those off the diagonal, without which each
    value still has its row, are marked ``deep``.
    """
    long = max(map(len, columns))
    kept = {tuple(row % len(column) for column in columns) for row in range(long)}
    places = product(*(range(len(column)) for column in columns))
    return [
        pytest.param(
            *(column[place] for column, place in zip(columns, row, strict=True)),
            marks=[] if row in kept else [DEEP],
        )
        for row in places
    ]
