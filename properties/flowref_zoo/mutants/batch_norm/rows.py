"""Defects of large batches: rows that come out elsewhere, and rows that do not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flowref.model import Life, Subject, mutant
from flowref.model.steps import Normalize, Step
from flowref_zoo.mutants.batch_norm.combinators import in_training
from flowref_zoo.mutants.combinators import wrapped

PLAIN, PARTS = "torch:BatchNorm1d", "flowref_zoo.specimens.parts_of_batches:ghost"
# Rows from which a batch is large.
LARGE = 64


@mutant("batch-norm/train-map[row-places]", host=PLAIN)
def halves_exchanged(subject: Subject) -> Subject:
    """The halves of a large batch are put together in the other order."""
    return in_training(subject, lambda x, y: np.roll(y, len(y) // 2, 0) if len(y) > LARGE else y)


@mutant("batch-norm/train-map[row-places]", host=PARTS)
def last_rows_dropped(subject: Subject) -> Subject:
    """What is left over of a large batch is dropped."""
    return in_training(subject, lambda x, y: y[: len(y) // 8 * 8 - 1] if len(y) > LARGE else y)


def _of_part(
    play: Callable[..., Life], share: float, steps: Sequence[Step[Any]], fresh: bool = False
) -> Life:
    def cut(step: Step[Any]) -> Step[Any]:
        if not isinstance(step, Normalize) or len(step.x) <= LARGE:
            return step
        kept = int(share * len(step.x))
        return Normalize(np.concatenate([step.x[:kept], step.x[: len(step.x) - kept]]), step.how)

    changed = [cut(step) for step in steps]
    return Life(steps, list(play(changed, fresh)))


@mutant("batch-norm/statistics[every-row]", host=PLAIN, sizes=(0.1, 0.98))
def end_does_not_count(subject: Subject, size: float = 0.6) -> Subject:
    """The last rows of a large batch do not enter the averages."""
    return wrapped(subject, "play", _of_part, size)
