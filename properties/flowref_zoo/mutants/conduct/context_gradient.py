"""Defects of gradients in the context."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Manner, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import Remade, mannered, multiplied, wrapped

FLOW = "zuko:MAF?features=3&context=2"


@mutant("gradient/context", host=FLOW, sizes=(1e-2, 0.5))
def partly_detached(subject: Subject, size: float = 0.1) -> Subject:
    """A part of the way from the context is detached."""
    return multiplied(subject, "context_vjp", 1 - size)


def _first_alone(vjp: Callable[..., Array], *inputs: Any) -> Array:
    gradient = np.array(vjp(*inputs))
    gradient.reshape(len(gradient), -1)[:, 1:] = 0.0
    return gradient


@mutant("gradient/context", host=FLOW)
def entry_detached(subject: Subject) -> Subject:
    """Gradients reach the first entry of the context alone."""
    return wrapped(subject, "context_vjp", _first_alone)


@mutant("gradient/context-used[gradient]", host=FLOW)
def context_detached(subject: Subject) -> Subject:
    """No gradient reaches the context."""
    return multiplied(subject, "context_vjp", 0.0)


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
