"""A case with its torch object, as built and in the recorded condition."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import numpy as np
import torch

from flowref.backends import build_seed
from flowref.backends.torch.live import DTYPES
from flowref.backends.torch.present import warm
from flowref.backends.torch.sandbox import GENERATORS, random_state, torch_sandbox
from flowref.backends.torch.standards import set_standards
from flowref.backends.torch.state import cast, fingerprint, modules, move, set_mode
from flowref.backends.torch.training import train_object
from flowref.loading import Recipe
from flowref.model import Condition, Law, Target, Verdict, derive
from flowref.scripting.case import ReproductionCase

# Generator -> function that seeds it differently.
OTHERWISE: dict[str, Callable[[], object]] = {
    "torch": lambda: torch.default_generator.manual_seed(1),
    "numpy": lambda: np.random.seed(1),
    "random": lambda: random.seed(1),
}


def rebuilt_case(verdict: Verdict, law: Law, target: Target, recipe: Recipe) -> ReproductionCase:
    """Return the recorded case with its object rebuilt."""
    assert verdict.counterexample is not None
    recorded = verdict.counterexample.condition
    recipe = recipe.given(recorded)
    # Cases of objects that run only in float32 may record the requested float64.
    name = recipe.dtype if recorded.dtype == "float64" else recorded.dtype
    seed, scale, dtype = recorded.seed, recorded.scale, DTYPES[name]
    with torch_sandbox(derive(seed, 3), dtype):
        as_built, way = recipe.build(), recipe.source.way()
    obj = as_built
    with torch_sandbox(derive(seed, 3), dtype), contextlib.suppress(Exception):
        obj = cast(recipe.build(), dtype)
        if recorded.history != "fresh" and not recipe.facts.given:
            warm(obj, recipe.dialect, recipe.facts, dtype, seed)
        if recorded.history == "trained":
            details = (recipe.dialect, recipe.facts, dtype, seed)
            with torch_sandbox(build_seed(seed), dtype):
                obj = train_object(obj, *details).obj
        if scale and not recipe.facts.promises.get("fixed"):
            move(obj, scale, derive(seed, 5))
            set_standards(obj, scale, derive(seed, 43))
        set_mode(obj, recorded.mode == "train")
    return ReproductionCase(
        verdict=verdict,
        law=law,
        target=target,
        dialect=recipe.dialect,
        facts=recipe.facts,
        condition=Condition(
            name,
            seed,
            scale,
            recorded.history,
            mode=recorded.mode,
            direction=recorded.direction,
            grad=recorded.grad,
            contextual=recorded.contextual,
            one_context=recorded.one_context,
            resized=recorded.resized,
        ),
        obj=obj,
        as_built=as_built,
        copied=recipe.source.instance,
        way=way,
        modular=bool(modules(as_built)),
        draws=builder_generators(recipe, derive(seed, 3), dtype),
        weights=recipe.source.weights,
    )


def builder_generators(recipe: Recipe, seed: int, dtype: torch.dtype) -> tuple[str, ...]:
    """Return the generators that a builder uses: their state changes or, if it is restored, the
    result depends on their seed.
    """

    def built() -> str:
        # Fills uninitialized memory, so that it is the same in each build.
        torch.use_deterministic_algorithms(True, warn_only=True)
        return fingerprint(recipe.build())

    with torch_sandbox(seed, dtype):
        before = random_state()
        usual = built()
        pairs = zip(before, random_state(), strict=True)
    moved = {name: one != other for name, (one, other) in zip(GENERATORS, pairs, strict=True)}
    for generator, reseed in OTHERWISE.items():
        with torch_sandbox(seed, dtype):
            reseed()
            moved[generator] |= built() != usual
    return tuple(generator for generator in GENERATORS if moved[generator])
