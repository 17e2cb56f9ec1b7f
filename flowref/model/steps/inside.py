"""Internals of a map: its layers, named modules, and the conditioner of a coupling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Layers(Step[Mapping[str, int]]):
    """How often each sub-bijection with parameters runs in one call."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True)
class Passed:
    """One run of a module within a call: its input and output.

    ``name``: "" for the whole call.
    """

    name: str
    entered: Array | None
    value: Array
    ladj: Any


@dataclass(frozen=True, eq=False)
class Trace(Step[Sequence[Passed]]):
    """All runs of the named modules in a call; the call itself comes last."""

    call: str
    x: Any
    context: Any
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Cut(Step[Sequence[Array]]):
    """Gradients of value times each cotangent, with respect to the output of a named module."""

    call: str
    x: Any
    context: Any
    name: str
    cotangents: Sequence[Any] = field(default_factory=tuple)


@dataclass(frozen=True, eq=False)
class Parameters(Step[Array]):
    """The output of a coupling's conditioner in one call, ``(rows, numbers)``."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True)
class Bend(Step[None]):
    """Replace the output of the coupling's conditioner from now on.

    ``how``: "folded": the conditioner returns |output|, detached, which is neither injective nor
    differentiable; "kept": it returns its output, plus ``size`` for kept entries.
    """

    how: str
    size: float = 0.0
