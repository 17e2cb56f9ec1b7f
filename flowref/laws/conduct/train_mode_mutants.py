"""Defects that only training shows, put into healthy subjects."""

from __future__ import annotations

from functools import partial

from flowref.laws.common.defects import Asked, answered, shifted_where
from flowref.model import Mapped, Subject, mutant

HOST = "nflows:AffineCouplingTransform"


def _log_det_off(size: float, out: Mapped, asked: Asked) -> Mapped:
    if asked.manner.how != "train" or out.ladj is None:
        return out
    return Mapped(out.value, out.ladj + size)


def _inverse_in_training(asked: Asked) -> bool:
    return asked.name == "inverse" and asked.manner.how == "train"


@mutant("mode/train-log-det", host=HOST, sizes=(1e-9, 1e-4))
def log_det_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det carries a spurious term in train mode only."""
    return answered(subject, partial(_log_det_off, size))


@mutant("mode/train-inverse", host=HOST, sizes=(1e-9, 1e-4))
def inverse_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is shifted in train mode only."""
    return shifted_where(subject, _inverse_in_training, size)
