"""From a target to a subject in a condition; what was loaded is kept for a while."""

from __future__ import annotations

import gc
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from flowref import backends
from flowref.loading.live_objects import register
from flowref.loading.recipe import MUTATION, around, forget_recipes, recipe_like, recipe_of
from flowref.loading.weights import weights_of
from flowref.model import Condition, Subject, Target, TargetError, one_line
from flowref.model.factories import is_factory, wants


def load(target: Target, condition: Condition | None = None, like: Target | None = None) -> Subject:
    """The subject of a target in a condition; judged in float32 where the component cannot run in
    float64. ``like``: a target that is the same construction with other options, which tells what
    calls of this one would show.

    The mutation of a target, if it names one, comes last. Recent subjects are kept: each copies
    what it is made of at each call, so that no use of one shows in the next.
    """
    return _mutated(target, condition or Condition(), like)


# Subjects that are kept, and the bytes that they may hold together.
KEPT, BYTES = 24, 768 * 2**20
# Bytes of a subject from which on it is freed at once.
LARGE = 2**24
_KEPT: OrderedDict[tuple[Target, Condition, Target | None, tuple[str, str]], Subject] = (
    OrderedDict()
)


def _mutated(target: Target, condition: Condition, like: Target | None) -> Subject:
    key = (target, condition, like, around(target))
    if key not in _KEPT:
        _KEPT[key] = _build_subject(target, condition, like)
    _KEPT.move_to_end(key)
    return _KEPT[key]


def _make_room(state: int) -> None:
    """Drop the subjects that were used longest ago, until one more fits. Large ones are freed at once:
    objects hang on themselves until cycles are sought.
    """
    held, large = [subject.cost.state for subject in _KEPT.values()], False
    while held and (len(held) >= KEPT or sum(held) + state > BYTES):
        _KEPT.popitem(last=False)
        large |= held.pop(0) > LARGE
    if large:
        gc.collect()


def _build_subject(target: Target, condition: Condition, like: Target | None) -> Subject:
    mutation = target.option(MUTATION)
    if mutation is None:
        recipe = recipe_of(target) if like is None else recipe_like(target, like)
        _make_room(recipe.facts.cost.state)
        return recipe.subject(condition)
    from flowref import registry

    # Mutants of one host share it, and with it the results of calls that they leave alone.
    narrow = None if like is None else like.without(MUTATION)
    subject = _mutated(target.without(MUTATION), condition, narrow)
    _make_room(0)
    name, _, size = mutation.partition("@")
    mutant = registry.find_mutant(name)

    def mutated(one: Subject) -> Subject:
        changed = mutant.apply(one, float(size)) if size else mutant.apply(one)
        refined = one.refined
        if refined is None:
            return changed

        def again(times: int) -> Subject | None:
            finer = refined(times)
            return None if finer is None else mutated(finer)

        # With more steps it is the mutant still.
        return replace(changed, refined=again)

    return mutated(subject)


def weights_digest(target: Target) -> str:
    """What tells the file apart that the weights of a target come from; empty where there is none."""
    if weights_of(target) is None:  # none is named
        return ""
    weights = recipe_of(target).source.weights
    return "" if weights is None else weights.digest


def forget() -> None:
    """Drop what was loaded (files may have changed)."""
    _KEPT.clear()
    forget_recipes()


def snapshot(obj: Any, name: str = "") -> Target:
    """Register a live object, or what a class or a factory makes: copied once, now, before anything calls
    it. Returns its target, which has this ``name``, or one after its state.

    Raises: `TargetError` where a class or a factory needs arguments, or raises.
    """
    forget()
    return register(_object(obj), name)


def _object(obj: Any) -> Any:
    name = getattr(obj, "__name__", type(obj).__name__)
    wanted = wants(obj)
    if wanted:
        raise TargetError(
            f"{name} needs {', '.join(wanted)}; give an object, as {name}(...), or what makes one, as "
            f"lambda: {name}(...)"
        )
    if not is_factory(obj):
        return obj
    try:
        with backends.sandbox(0):
            return obj()
    except Exception as error:
        raise TargetError(f"{name} cannot be made: it raises {one_line(error)}") from error
