"""A recorded case with its law, and the object in the recorded condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref import registry
from flowref.loading.weights import Weights
from flowref.model import (
    OBJECT,
    USER,
    Array,
    Condition,
    Counterexample,
    Dialect,
    Facts,
    FlowrefError,
    Law,
    Target,
    Verdict,
)

OURS = "flowref"


@dataclass(frozen=True)
class ReproductionCase:
    """A verdict, and its loaded target.

    ``as_built``: the object that the builder returns; ``obj``: the same in the recorded condition,
    read-only. ``copied``: whether it is an instance of the user's, taken as it is. ``modular``:
    whether it contains modules, whose buffers a train-mode batch may change. ``draws``: generators
    that the builder uses. ``weights``: loaded weights. ``way``: Python code from the builder's
    result to the object, if that is a part of it.
    """

    verdict: Verdict
    law: Law
    target: Target
    dialect: Dialect
    facts: Facts
    condition: Condition
    obj: Any
    as_built: Any
    copied: bool
    modular: bool
    draws: tuple[str, ...]
    weights: Weights | None = None
    way: str = ""

    @property
    def recorded(self) -> Counterexample:
        """The counterexample."""
        assert self.verdict.counterexample is not None
        return self.verdict.counterexample

    @property
    def x(self) -> Array:
        """The points, ``(batch, *event)``."""
        return np.asarray(self.recorded.x, dtype=np.float64)

    @property
    def context(self) -> Array | None:
        """The contexts, ``(batch, *context)``; None without."""
        given = self.recorded.context
        return None if given is None else np.asarray(given, dtype=np.float64)


def target_of(verdict: Verdict) -> Target:
    """Return the target of a verdict. Raises: `FlowrefError` in one sentence if no program can
    build it, or there is no case.
    """
    if verdict.counterexample is None:
        raise FlowrefError(
            f"{verdict.law} in {verdict.target} was {verdict.status}, which has no case to reproduce"
        )
    if verdict.target.startswith(f"{OBJECT}:"):
        raise FlowrefError(
            f"{verdict.target} was a live object, which no program can build; put its "
            "construction into a function and audit that: flowref audit file.py:factory"
        )
    target = registry.parse_target(verdict.target)
    if target.option("mutant") is not None:
        raise FlowrefError(f"{target} is a mutant, and mutants live only inside flowref")
    package = "" if target.adapter == USER else registry.adapters()[target.adapter].package
    if OURS in (package, target.component.partition(".")[0]):
        raise FlowrefError(
            f"{target} is part of flowref, and programs must run without it; measure it with "
            f"flowref replay {verdict.id}"
        )
    return target
