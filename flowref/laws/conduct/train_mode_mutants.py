"""Defects that only training shows, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.model import Array, Mapped, Subject, mutant

HOST = "nflows:AffineCouplingTransform"


def _off_in_training(
    call: Callable[..., Mapped],
    value: float,
    ladj: float,
    which: str,
    x: Array,
    context: Array | None = None,
    **manner: Any,
) -> Mapped:
    out = call(which, x, context, **manner)
    if manner.get("how") != "train":
        return out
    moved = out.value + value if which == "inverse" else out.value
    return Mapped(moved, None if out.ladj is None else out.ladj + ladj)


@mutant("mode/train-log-det", host=HOST, sizes=(1e-9, 1e-4))
def log_det_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-det carries a spurious term in train mode only."""
    return replace(subject, call=partial(_off_in_training, subject.call, 0.0, size))


@mutant("mode/train-inverse", host=HOST, sizes=(1e-9, 1e-4))
def inverse_off_in_training(subject: Subject, size: float = 1e-4) -> Subject:
    """The inverse is shifted in train mode only."""
    return replace(subject, call=partial(_off_in_training, subject.call, size, 0.0))
