"""Defects that only training shows, put into healthy subjects."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.laws.common.defects import Remade, mannered
from flowref.model import Manner, Mapped, Subject, mutant

HOST = "nflows:AffineCouplingTransform"


def _off_in_training(
    value: float, ladj: float, call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    out = call(inputs, manner)
    if manner.how != "train":
        return out
    moved = out.value + value if name == "inverse" else out.value
    return Mapped(moved, None if out.ladj is None else out.ladj + ladj)


@mutant("mode/train-log-det", host=HOST, sizes=(1e-9, 1e-4))
def log_det_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det carries a spurious term in train mode only."""
    return mannered(subject, partial(_off_in_training, 0.0, size))


@mutant("mode/train-inverse", host=HOST, sizes=(1e-9, 1e-4))
def inverse_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is shifted in train mode only."""
    return mannered(subject, partial(_off_in_training, size, 0.0))
