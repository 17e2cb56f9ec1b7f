"""What happens inside a map: its layers, named modules, and the conditioner of a coupling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Layers(Step[Mapping[str, int]]):
    """How often every sub-bijection that has parameters runs in one call."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True)
class Passed:
    """One run of a module within a call: what entered it and what it returned.

    ``name``: "" for the whole call.
    """

    name: str
    entered: Array | None
    value: Array
    ladj: Any


@dataclass(frozen=True, eq=False)
class Trace(Step[Sequence[Passed]]):
    """Each run of the named modules in a call; the call itself comes last."""

    call: str
    x: Any
    context: Any
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Cut(Step[Sequence[Array]]):
    """Gradients of a call's value times each cotangent, for what a named module gives."""

    call: str
    x: Any
    context: Any
    name: str
    cotangents: Sequence[Any] = field(default_factory=tuple)


@dataclass(frozen=True, eq=False)
class Parameters(Step[Array]):
    """What the conditioner of a coupling gives in one call, ``(rows, numbers)``."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True)
class Bend(Step[None]):
    """From here on the conditioner of a coupling gives something else.

    ``how``: "folded": its absolute value with no graph, a function that is not injective and has no
    derivative; "kept": the same as before, plus ``size`` for entries that are kept.
    """

    how: str
    size: float = 0.0
