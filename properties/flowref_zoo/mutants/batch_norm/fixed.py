"""Defects of fixed maps, and of layers that have become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowref.model import Life, Subject, mutant
from flowref.model.steps import Eval, Step, Train
from flowref_zoo.mutants.batch_norm.combinators import in_evaluation, in_training, louder
from flowref_zoo.mutants.combinators import wrapped

FROZEN, PLAIN = "flowref_zoo.specimens.frozen_batch_norm:frozen", "torch:BatchNorm1d"


@mutant("batch-norm/eval-map[fixed]", host=FROZEN, sizes=(1e-9, 1e-2))
def too_loud(subject: Subject, size: float = 1e-3) -> Subject:
    """The output is too large by a share of itself, in both modes."""
    return in_training(in_evaluation(subject, louder(size)), louder(size))


def _evaluated(play: Callable[..., Life], steps: Sequence[Step[Any]], fresh: bool = False) -> Life:
    changed = [Eval() if isinstance(step, Train) else step for step in steps]
    return Life(steps, list(play(changed, fresh)))


@mutant("batch-norm/modes-agree[difference]", host=PLAIN)
def mode_forgotten(subject: Subject) -> Subject:
    """Train mode does what eval mode does."""
    return wrapped(subject, "play", _evaluated)
