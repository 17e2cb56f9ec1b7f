"""Defects that only training shows, put into healthy subjects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.model import Mapped, Subject, mutant
from flowref.model.steps import Run, Train
from flowref_zoo.mutants.combinators import (
    Asked,
    Steps,
    answered,
    living,
    shifted,
    shifted_where,
    where,
)

HOST = "nflows:AffineCouplingTransform"


def _log_det_off(size: float, out: Mapped, asked: Asked) -> Mapped:
    if asked.manner.how != "train" or out.ladj is None:
        return out
    return Mapped(out.value, out.ladj + size)


def _inverse_in_training(asked: Asked) -> bool:
    return asked.name == "inverse" and asked.manner.how == "train"


@mutant("same/train-mode[log-det]", host=HOST, sizes=(1e-9, 1e-4))
def log_det_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det carries a spurious term in train mode only."""
    return answered(subject, partial(_log_det_off, size))


@mutant("same/train-mode[inverse]", host=HOST, sizes=(1e-9, 1e-4))
def inverse_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is shifted in train mode only."""
    return shifted_where(subject, _inverse_in_training, size)


def _first_off(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    first = next((at for at, step in enumerate(steps) if isinstance(step, Run)), None)
    if first is not None and outcomes[first].ladj is not None:
        outcomes[first] = Mapped(outcomes[first].value, outcomes[first].ladj + size)
    return outcomes


@mutant("same/train-mode[first-call]", host="nflows:ActNorm", sizes=(1e-9, 0.1))
def log_det_before_initialization(subject: Subject, size: float = 1e-3) -> Subject:
    """The first log-det is that of the weights before the first batch set them."""
    return living(subject, partial(_first_off, size))


def _stale(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    seen = False
    for at, step in enumerate(steps):
        if not isinstance(step, Run):
            continue
        if seen and step.call == "inverse":
            outcomes[at] = Mapped(outcomes[at].value + size, outcomes[at].ladj)
        seen = seen or step.call == "forward"
    return outcomes


@mutant("same/history[other-calls]", host=HOST, sizes=(1e-8, 1e-2))
def answered_from_the_last_call(subject: Subject, size: float = 1e-3) -> Subject:
    """The inverse is off once forward was called."""
    return living(subject, partial(_stale, size))


def _density_in_training(asked: Asked) -> bool:
    return asked.name == "log_prob" and asked.manner.how == "train"


@mutant("same/train-mode[density]", host="nflows:SimpleRealNVP", sizes=(1e-9, 1e-4))
def density_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """A part of the log-density is left out in train mode."""
    return shifted_where(subject, _density_in_training, size)


@mutant("map/inverse[last-call]", host=HOST, sizes=(1e-4, 0.1))
def noise_on_the_way_back(subject: Subject, size: float = 0.1) -> Subject:
    """In train mode the inverse draws noise of its own."""
    return living(subject, partial(_off_in_training, size))


@mutant("map/log-det[last-call]", host=HOST, sizes=(1e-4, 0.1))
def log_det_off_on_the_way_back(subject: Subject, size: float = 0.1) -> Subject:
    """In train mode the log-det of the inverse is off."""
    return living(subject, partial(_log_det_off_in_training, size))


def _log_det_off_in_training(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    if not any(isinstance(step, Train) for step in steps):
        return outcomes
    chosen = partial(_inverts, "inverse")
    return where(
        chosen, lambda out: out._replace(ladj=np.asarray(out.ladj) + size), steps, outcomes
    )


def _off_in_training(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    if not any(isinstance(step, Train) for step in steps):
        return outcomes
    chosen = partial(_inverts, "inverse")
    return where(chosen, lambda out: shifted(out, size), steps, outcomes)


def _inverts(name: str, step: Any) -> bool:
    return isinstance(step, Run) and step.call == name
