"""Damage that mutants of several families do to one call of a healthy subject: a constant, a factor,
or another value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from flowref.laws.common.defects import wrapped
from flowref.model import Array, Mapped, Subject, TargetError

Fact = TypeVar("Fact")


def declared(fact: Fact | None) -> Fact:
    """A fact that the host of a mutant must have; `TargetError` where it is not declared."""
    if fact is None:
        raise TargetError("the host of this mutant declares no such fact; pass one that does")
    return fact


def added(subject: Subject, call: str, amount: float) -> Subject:
    """The subject of which a call that returns an array is off by a constant."""
    return wrapped(subject, call, _plus, amount)


def multiplied(subject: Subject, call: str, factor: float) -> Subject:
    """The subject of which a call that returns an array is off by a factor."""
    return wrapped(subject, call, _times, factor)


def ladj_added(subject: Subject, call: str, amount: float) -> Subject:
    """The subject of which the log-det of a map is off by a constant."""
    return wrapped(subject, call, _ladj_plus, amount)


def value_changed(subject: Subject, call: str, change: Callable[[Array], Array]) -> Subject:
    """The subject of which the value of a map is changed, and its log-det is not."""
    return wrapped(subject, call, _changed, change)


def _plus(call: Callable[..., Array], amount: float, *inputs: Any) -> Array:
    return np.asarray(call(*inputs) + amount)


def _times(call: Callable[..., Array], factor: float, *inputs: Any) -> Array:
    return np.asarray(call(*inputs) * factor)


def _ladj_plus(call: Callable[..., Mapped], amount: float, *inputs: Any) -> Mapped:
    out = call(*inputs)
    return Mapped(out.value, np.asarray(out.ladj) + amount)


def _changed(call: Callable[..., Mapped], change: Callable[[Array], Array], *inputs: Any) -> Mapped:
    out = call(*inputs)
    return Mapped(change(np.asarray(out.value)), out.ladj)
