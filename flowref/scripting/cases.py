"""Recorded cases, loaded again: everything that a program is written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flowref import checking, loading, registry
from flowref.loading.recipe import Recipe, recipe_of
from flowref.model import (
    OBJECT,
    Condition,
    Counterexample,
    FlowrefError,
    Law,
    Subject,
    Target,
    Verdict,
)


@dataclass(frozen=True)
class Case:
    """A verdict with what it speaks of."""

    verdict: Verdict
    found: Counterexample
    law: Law
    target: Target
    plan: Recipe
    condition: Condition
    subject: Subject

    @property
    def live(self) -> Any:
        """The loaded object behind the subject."""
        return self.subject.jacobian.args[0]  # type: ignore[union-attr]  # every subject is made of partial functions


def case_of(verdict: Verdict) -> Case:
    """The recorded case, loaded. Raises `FlowrefError` in one sentence where no program can show
    it.
    """
    found, law = verdict.counterexample, registry.find_law(verdict.law)
    if found is None:
        raise FlowrefError(
            f"{verdict.law} in {verdict.target} was {verdict.status}, which leaves no case to "
            "write down"
        )
    if verdict.target.startswith(f"{OBJECT}:"):
        raise FlowrefError(
            f"{verdict.target} was a live object, which no program can build; put its "
            "construction into a function and "
            "audit that: flowref audit file.py:factory"
        )
    target = registry.parse_target(verdict.target)
    if target.option("mutant") is not None:
        raise FlowrefError(f"{target} is a mutant, and mutants live only inside flowref")
    if law.rebuild is not None:
        plain = loading.load(target, Condition(history=law.history))
        target = checking.larger(target, plain, law.rebuild, law.features) or target
    plan = recipe_of(target)
    # Cases of objects that run in float32 only may say float64, as they were asked for.
    dtype = plan.dtype if found.condition.dtype == "float64" else found.condition.dtype
    condition = Condition(
        dtype, found.condition.seed, found.condition.scale, found.condition.history
    )
    return Case(verdict, found, law, target, plan, condition, loading.load(target, condition))
