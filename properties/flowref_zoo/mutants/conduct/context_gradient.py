"""Defects of gradients in the context."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Manner, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import Remade, mannered, wrapped

FLOW = "zuko:MAF?features=3&context=2"


Change = Callable[[Array], Array]


def in_context(subject: Subject, change: Change) -> Subject:
    """The subject of which gradients toward the context are changed."""
    return wrapped(subject, "vjp", _in_context, change)


def _in_context(vjp: Callable[..., Array], change: Change, *inputs: Any) -> Array:
    gradient = np.array(vjp(*inputs))
    return change(gradient) if inputs[5:6] == ("context",) else gradient


@mutant("gradient/context", host=FLOW, sizes=(1e-2, 0.5))
def partly_detached(subject: Subject, size: float = 0.1) -> Subject:
    """A part of the way from the context is detached."""
    return in_context(subject, partial(np.multiply, 1 - size))


def _first_alone(gradient: Array) -> Array:
    gradient.reshape(len(gradient), -1)[:, 1:] = 0.0
    return gradient


@mutant("gradient/context", host=FLOW)
def entry_detached(subject: Subject) -> Subject:
    """Gradients reach the first entry of the context alone."""
    return in_context(subject, _first_alone)


@mutant("gradient/context-used[gradient]", host=FLOW)
def context_detached(subject: Subject) -> Subject:
    """No gradient reaches the context."""
    return in_context(subject, partial(np.multiply, 0.0))


@mutant("gradient/context-used", host=FLOW, sizes=(1.0, 2.0))
def context_dropped(subject: Subject, size: float = 2.0) -> Subject:
    """So many entries of the context are not looked at."""
    return mannered(subject, partial(_without, round(size)))


def _without(
    entries: int, call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    context = np.array(inputs[1])
    context[:, :entries] = 0.0
    return call((inputs[0], context, *inputs[2:]), manner)
