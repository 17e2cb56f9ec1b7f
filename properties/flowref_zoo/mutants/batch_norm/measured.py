"""Defects of batch normalization that its calls show, under whatever names."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref.model.steps import Normalize, Nudge, Run, State
from flowref_zoo.mutants.batch_norm.combinators import (
    IMAGE,
    VECTOR,
    at,
    axes,
    deviating,
    in_training,
    mean,
    moments,
    reporting,
)
from flowref_zoo.mutants.batch_norm.gradient import mean_constant, variance_constant
from flowref_zoo.mutants.combinators import Steps, living

LAYER = "reference:InvertibleBatchNorm"
RUNNING = "flowref_zoo.specimens.other_normalizers:running_averages"
CORRECTED = "flowref_zoo.specimens.averaging_layers:corrected"
RENORMALIZED = "flowref_zoo.specimens.averaging_layers:renormalized"


@mutant("batch-norm/train-map[renormalization]", host=RENORMALIZED, sizes=(1e-5, 1e-2))
def stretched_in_training(subject: Subject, size: float = 1e-3) -> Subject:
    """What is corrected is stretched."""
    return in_training(subject, lambda x, y: y * (1 + size))


@mutant("batch-norm/train-map", host=IMAGE, sizes=(1e-9, 1e-2))
def drawn_in(subject: Subject, size: float = 1e-2) -> Subject:
    """Large values are drawn in."""
    return in_training(subject, lambda x, y: y - size * (y - mean(y)) ** 3)


@mutant("batch-norm/train-map", host=VECTOR, sizes=(1e-8, 1e-2))
def mean_comes_through(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of the batch stays in the output."""
    return in_training(subject, lambda x, y: y + size * mean(x))


@mutant("batch-norm/train-map[deviation]", host=IMAGE)
def eps_beside_the_root(subject: Subject, size: float = 1.0) -> Subject:
    """The standard deviation plus eps takes the place of the root of the variance plus eps."""
    return deviating(subject, lambda x, eps: x.std(axes(x), keepdims=True) + eps)


@mutant("batch-norm/train-map[deviation]", host=VECTOR, sizes=(1e-8, 1.0))
def about_zero(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is taken about zero, in part."""
    return deviating(
        subject,
        lambda x, eps: np.sqrt(x.var(axes(x), keepdims=True) + size * mean(x) ** 2 + eps),
    )


@mutant("batch-norm/modes-agree", host=IMAGE, sizes=(1e-9, 1e-2))
def weight_frozen_in_evaluation(subject: Subject, size: float = 1e-2) -> Subject:
    """In eval mode a change of the weight acts in part."""

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        nudged = any(isinstance(step, Nudge) for step in steps)
        triples = zip(moments(steps), steps, outcomes, strict=True)
        return [
            out * (1 + size)
            if nudged and isinstance(step, Normalize) and not moment.training
            else out
            for moment, step, out in triples
        ]

    return living(subject, changed)


@mutant("batch-norm/gradient", host=VECTOR, sizes=(1e-9, 1.0))
def variance_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is held constant in the backward pass."""
    return variance_constant(subject, size)


@mutant("batch-norm/gradient", host=IMAGE, sizes=(1e-9, 1.0))
def mean_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The mean is held constant in the backward pass."""
    return mean_constant(subject, size)


def after_training(subject: Subject, change: Any) -> Subject:
    """The subject whose eval mode is changed once it has seen batches in train mode: from how many
    it has seen.
    """

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        replaced: list[Any] = []
        batches = 0
        for moment, step, out in zip(moments(steps), steps, outcomes, strict=True):
            normalizes = isinstance(step, Normalize)
            batches += normalizes and moment.training
            replaced.append(
                change(batches, out) if normalizes and batches and not moment.training else out
            )
        return replaced

    return living(subject, changed)


@mutant("batch-norm/statistics", host=VECTOR, sizes=(1e-9, 1e-2))
def variance_follows_otherwise(subject: Subject, size: float = 1e-2) -> Subject:
    """Every batch makes what eval mode divides by a little too small."""
    return after_training(subject, lambda batches, y: y * (1 + size) ** batches)


@mutant("batch-norm/statistics", host=IMAGE, sizes=(1e-9, 1e-2))
def mean_follows_otherwise(subject: Subject, size: float = 1e-2) -> Subject:
    """Every batch moves the mean of eval mode a little in all channels."""
    return after_training(subject, lambda batches, y: y + size * batches)


@mutant("batch-norm/statistics[running-average]", host=RUNNING, sizes=(1e-9, 1e-2))
def running_variance_follows_otherwise(subject: Subject, size: float = 1e-2) -> Subject:
    """Every batch makes what a running average divides by a little too small."""
    return after_training(subject, lambda batches, y: y * (1 + size) ** batches)


@mutant("batch-norm/statistics[running-average]", host=CORRECTED, sizes=(1e-9, 1e-2))
def correction_ends(subject: Subject, size: float = 1e-2) -> Subject:
    """Of an average that is corrected for its start the variance is corrected too little."""
    return after_training(subject, lambda batches, y: y * (1 - size * 0.9**batches))


def _constant(x: Array) -> bool:
    rows = np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
    return bool((rows == rows[:, :1]).all(1).any())


@mutant("state/degenerate-batch[constant-channel]", host=IMAGE)
def constant_spoils(subject: Subject, size: float = 1.0) -> Subject:
    """A channel that is constant leaves nan in the statistics."""

    def changed(steps: Steps, outcomes: list[Any]) -> list[Any]:
        spoilt, replaced = False, []
        for step, out in zip(steps, outcomes, strict=True):
            spoilt = spoilt or (isinstance(step, Normalize) and _constant(step.x))
            bad = spoilt and isinstance(step, State)
            replaced.append({name: value * np.nan for name, value in out.items()} if bad else out)
        return replaced

    return living(subject, changed)


@mutant("map/log-det[slopes]", host=LAYER, sizes=(1e-9, 1.0))
def log_det_off_in_train_mode(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det in train mode is off by a constant."""
    return reporting(subject, True, lambda ladj: ladj + size)


@mutant("map/log-det[slopes]", host=f"{LAYER}[img]", sizes=(1e-9, 1.0))
def log_det_off_in_eval_mode(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det in eval mode is off by a constant."""
    return reporting(subject, False, lambda ladj: ladj + size)


@mutant("batch-norm/modes-agree[running-average]", host=f"{LAYER}[running]", sizes=(1e-9, 1e-2))
def other_averages_in_train_mode(subject: Subject, size: float = 1e-2) -> Subject:
    """Train mode normalizes by other averages than eval mode does afterwards."""
    return at(
        subject,
        Run,
        lambda moment, step, out: (
            Mapped(out.value * (1 + size), out.ladj) if moment.training else out
        ),
    )


@mutant("batch-norm/modes-agree[running-average]", host=f"{LAYER}[running]", sizes=(1e-9, 1.0))
def log_det_of_the_batch(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det in train mode is off by a constant."""
    return reporting(subject, True, lambda ladj: ladj + size)
