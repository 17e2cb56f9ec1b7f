"""A case with its JAX object, as built and in the recorded condition."""

from __future__ import annotations

import random

import numpy as np

from flowref.backends import build_seed
from flowref.backends.jax.sandbox import jax_sandbox
from flowref.backends.jax.trees import cast
from flowref.loading import Recipe
from flowref.model import Condition, Law, Target, Verdict
from flowref.scripting.case import ReproductionCase


def rebuilt_case(verdict: Verdict, law: Law, target: Target, recipe: Recipe) -> ReproductionCase:
    """Return the recorded case with its object rebuilt; arrays are not perturbed."""
    assert verdict.counterexample is not None
    recorded = verdict.counterexample.condition
    # Cases of objects that run only in float32 may record the requested float64.
    name = recipe.dtype if recorded.dtype == "float64" else recorded.dtype
    with jax_sandbox(build_seed(recorded.seed), name):
        before = states()
        as_built, way = recipe.build(), recipe.source.way()
        draws = tuple(which for which, state in states().items() if state != before[which])
        obj = cast(as_built, name)
    return ReproductionCase(
        verdict=verdict,
        law=law,
        target=target,
        dialect=recipe.dialect,
        facts=recipe.facts,
        condition=Condition(
            name, recorded.seed, recorded.scale, recorded.history, direction=recorded.direction
        ),
        obj=obj,
        as_built=as_built,
        copied=recipe.source.instance,
        way=way,
        modular=False,
        draws=draws,
    )


def states() -> dict[str, str]:
    """The states of numpy's and Python's generators; JAX keys belong to the code."""
    held = np.random.get_state(legacy=False)["state"]
    numpy = f"{np.asarray(held['key']).tobytes()!r} {held['pos']}"
    return {"numpy": numpy, "random": repr(random.getstate())}
