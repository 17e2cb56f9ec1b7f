"""A pair with more rows in a batch than the search draws; what a worker runs in place of the usual
check.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.auditing.worker import check_pair
from flowref.checking import search
from flowref.checking.examples import Example
from flowref.checking.points import example_batch
from flowref.model import Batch, Recognized, Subject, Target, Verdict

VARIABLE = "FLOWREF_GROWTH_ROWS"
# The largest batch that the search draws by itself.
USUAL = 16


def check(target: Target, law: str | None, settings: Any) -> Verdict | Recognized:
    """As ever, with the rows of every batch multiplied, but for batches of one."""
    factor = int(os.environ.get(VARIABLE, USUAL)) // USUAL
    if factor == 1:
        return check_pair(target, law, settings)
    with _multiplied(factor):
        return check_pair(target, law, settings)


@contextmanager
def _multiplied(factor: int) -> Iterator[None]:
    def drawn(
        subject: Subject,
        example: Example,
        region: str = "domain",
        most: int | None = None,
        rows: int = 0,
    ) -> Batch:
        """So many draws, one below the other."""
        first = example_batch(subject, example, region, most, rows)
        if len(first.x) == 1:
            return first
        more = (
            example_batch(
                subject, replace(example, seed=example.seed + 1000 * index), region, most, rows
            )
            for index in range(1, factor)
        )
        every = [first, *more]
        contexts = [batch.context for batch in every if batch.context is not None]
        return Batch(
            np.concatenate([batch.x for batch in every]),
            np.concatenate(contexts) if contexts else None,
            first.seed,
        )

    kept, search.example_batch = search.example_batch, drawn  # type: ignore[attr-defined]  # it is imported there
    try:
        yield
    finally:
        search.example_batch = kept  # type: ignore[attr-defined]  # as above
