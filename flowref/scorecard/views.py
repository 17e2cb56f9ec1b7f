"""The figures of a verdict: the one measured with it, or one made of its recorded numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from flowref.model import Verdict
from flowref.model.figure import JACOBIAN, Figure, figure
from flowref.scorecard.plots import figure_plots

LARGEST = 24


def views(verdict: Verdict) -> Iterator[Markup]:
    """Yield the plots of a verdict."""
    if verdict.figure is not None:
        yield from figure_plots(verdict.figure)
    case = verdict.counterexample
    if case is not None and (product := _jacobian_product(case.observed)) is not None:
        yield from figure_plots(product)


def _jacobian_product(observed: dict[str, Any]) -> Figure | None:
    """The product of the Jacobians of both directions, against the identity; None without them."""
    backward: Any = observed.get("J of inverse")
    forward: Any = observed.get("J of forward")
    if not _square(backward) or not _square(forward) or len(backward) != len(forward):
        return None
    size = len(forward)
    if size > LARGEST:
        return None
    columns = list(zip(*forward, strict=True))
    product = [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in columns]
        for row in backward
    ]
    identity = [float(i == j) for i in range(size) for j in range(size)]
    return figure(
        JACOBIAN,
        "product of both Jacobians minus I",
        reported=itertools.chain(*product),
        true=identity,
        columns=[size],
    )


def _square(matrix: Any) -> bool:
    return (
        isinstance(matrix, list)
        and bool(matrix)
        and all(isinstance(row, list) and len(row) == len(matrix) for row in matrix)
        and all(isinstance(entry, float | int) for row in matrix for entry in row)
    )
