"""A case with its torch object: as it is built, and in the recorded condition."""

from __future__ import annotations

import contextlib

from flowref.backends.torch.live import DTYPES
from flowref.backends.torch.present import warm
from flowref.backends.torch.sandbox import GENERATORS, random_state, sandbox
from flowref.backends.torch.state import cast, modules, move, set_mode
from flowref.loading import Recipe
from flowref.model import Condition, Law, Target, Verdict, derive
from flowref.scripting.case import Case


def loaded(verdict: Verdict, law: Law, target: Target, recipe: Recipe) -> Case:
    """The recorded case, its object built anew."""
    assert verdict.counterexample is not None
    recorded = verdict.counterexample.condition
    # Cases of objects that run in float32 only may say float64, as they were asked for.
    name = recipe.dtype if recorded.dtype == "float64" else recorded.dtype
    seed, scale, dtype = recorded.seed, recorded.scale, DTYPES[name]
    with sandbox(derive(seed, 3), dtype):
        before = random_state()
        as_built = recipe.build()
        drawn = zip(GENERATORS, before, random_state(), strict=True)
        draws = tuple(generator for generator, one, other in drawn if one != other)
    obj = as_built
    with sandbox(derive(seed, 3), dtype), contextlib.suppress(Exception):
        obj = cast(recipe.build(), dtype)
        if recorded.history != "fresh":
            warm(obj, recipe.dialect, recipe.facts, dtype, seed)
        if scale and not recipe.facts.promises.get("fixed"):
            move(obj, scale, derive(seed, 5))
        set_mode(obj, False)
    return Case(
        verdict=verdict,
        law=law,
        target=target,
        dialect=recipe.dialect,
        facts=recipe.facts,
        condition=Condition(name, seed, scale, recorded.history),
        obj=obj,
        as_built=as_built,
        copied=recipe.source.instance,
        modular=bool(modules(as_built)),
        draws=draws,
    )
