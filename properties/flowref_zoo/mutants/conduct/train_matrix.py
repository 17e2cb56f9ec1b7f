"""Defects of what train mode does to whole batches, put into healthy layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Eval, Run, State, Train
from flowref_zoo.mutants.combinators import Steps, living

NORMALIZER = "nflows:BatchNorm"


def _in_training(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    training = False
    for at, step in enumerate(steps):
        training = isinstance(step, Train) or (training and not isinstance(step, Eval))
        if training and isinstance(step, Run) and outcomes[at].ladj is not None:
            outcomes[at] = Mapped(outcomes[at].value, np.asarray(outcomes[at].ladj) + size)
    return outcomes


@mutant("map/log-det[batch-matrix]", host=NORMALIZER, sizes=(1e-5, 1.0))
def log_det_off_in_train_mode(subject: Subject, size: float = 1.0) -> Subject:
    """In train mode the log-det is off by a constant."""
    return living(subject, partial(_in_training, size))


def _led(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    training, first = False, None
    for at, step in enumerate(steps):
        training = isinstance(step, Train) or (training and not isinstance(step, Eval))
        if training and isinstance(step, Run):
            first = float(np.asarray(step.x)[0].mean())
        elif first is not None and isinstance(step, State):
            outcomes[at] = {
                name: value + size * first if value.dtype.kind == "f" and value.ndim else value
                for name, value in outcomes[at].items()
            }
    return outcomes


@mutant("same/rows-in-train[state]", host=NORMALIZER, sizes=(1e-4, 1.0))
def the_first_row_counts_more(subject: Subject, size: float = 1.0) -> Subject:
    """The running mean takes the first row of a batch for its mean."""
    return living(subject, partial(_led, size))
