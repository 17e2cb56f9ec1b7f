"""Defects of batch normalization as a layer of a flow."""

from __future__ import annotations

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref.model.steps import Run
from flowref_zoo.mutants.batch_norm.combinators import (
    drifting,
    in_evaluation,
    in_training,
    louder,
    mean,
    pulling,
    reporting,
)
from flowref_zoo.mutants.batch_norm.contract import lenient

LAYER, RUNNING = "reference:InvertibleBatchNorm", "reference:InvertibleBatchNorm[running]"


@mutant("map/log-det[slopes]", host=f"{LAYER}[img]")
def positions_missing(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det counts one position of an image."""
    return reporting(subject, False, lambda ladj: ladj / 4)


@mutant("map/log-det[slopes]", host=LAYER, sizes=(1e-10, 1e-3))
def log_det_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det is off by a constant."""
    return reporting(subject, False, lambda ladj: ladj + size)


def _layer_normalized(x: Array, y: Array) -> Array:
    rows = tuple(range(1, x.ndim))
    return np.asarray((x - x.mean(rows, keepdims=True)) / x.std(rows, keepdims=True))


@mutant("batch-norm/eval-map", host=LAYER)
def layer_normalized(subject: Subject, size: float = 1.0) -> Subject:
    """Each sample is normalized over its features."""
    return in_evaluation(subject, _layer_normalized)


@mutant("map/inverse[batch-norm]", host=LAYER)
def inverse_in_training(subject: Subject, size: float = 1.0) -> Subject:
    """In train mode the inverse answers, and not with what was normalized."""
    return lenient(
        subject,
        lambda moment, step: isinstance(step, Run) and step.call == "inverse" and moment.training,
    )


@mutant("batch-norm/statistics[inverse]", host="pyro:BatchNorm", sizes=(1e-9, 1e-2))
def inverse_counts(subject: Subject, size: float = 1e-2) -> Subject:
    """Sampling in train mode moves the running statistics."""
    return drifting(
        subject,
        size,
        lambda steps: any(isinstance(step, Run) and step.call == "forward" for step in steps),
    )


@mutant("map/log-det[batch]", host=RUNNING, sizes=(1.0, 10.0))
def batch_log_det_off(subject: Subject, size: float = 1.0) -> Subject:
    """The log-dets in train mode are off by a constant."""
    return reporting(subject, True, lambda ladj: ladj + size)


@mutant("batch-norm/modes-agree[running-average]", host=RUNNING, sizes=(1e-9, 1e-2))
def averages_before_the_batch(subject: Subject, size: float = 1e-2) -> Subject:
    """Train mode normalizes by other averages than it holds afterwards."""
    return in_training(subject, louder(size))


@mutant("map/log-det[slopes]", host=RUNNING, sizes=(1e-9, 1e-2))
def other_variance_in_log_det(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-det in train mode has the variance of the batch, the output that of the average."""
    return reporting(subject, True, lambda ladj: ladj + size)


@mutant("batch-norm/gradient[running-average]", host=RUNNING, sizes=(1e-8, 1.0))
def gradient_in_full(subject: Subject, size: float = 1.0) -> Subject:
    """The gradient passes through the mean of the batch as if it were not averaged."""
    return pulling(subject, "x", lambda x, dy, dx: dx - size * mean(dx))
