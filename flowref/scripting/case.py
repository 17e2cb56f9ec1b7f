"""A recorded case with what it speaks of: the law, and the object in the condition it was in."""

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
    """A verdict, and its target as it was loaded.

    ``as_built``: the object that the builder gives; ``obj`` the same in the recorded condition, to
    ask and not to change. ``copied``: whether it is an instance of the user's, which is taken as it
    is. ``modular``: whether it holds modules, whose buffers a batch in train mode may change.
    ``draws``: the generators that decide what is built. ``weights``: those that are loaded into it.
    ``way``: the Python that leads from what the builder gives to it, where it is a part of that.
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
        """The contexts, if there are any."""
        given = self.recorded.context
        return None if given is None else np.asarray(given, dtype=np.float64)


def target_of(verdict: Verdict) -> Target:
    """The target of a verdict. Raises `FlowrefError` in one sentence where no program can build it,
    or there is no case to show.
    """
    if verdict.counterexample is None:
        raise FlowrefError(
            f"{verdict.law} in {verdict.target} was {verdict.status}, which leaves no case to "
            "write down"
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
            f"{target} is part of flowref, and programs stand without it; measure it with "
            f"flowref replay {verdict.id}"
        )
    return target
