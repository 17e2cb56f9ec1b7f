"""From a target to a subject in a condition, with a cache."""

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
    """The subject of a target in a condition; in float32 if it cannot run in float64.

    ``like``: a target of the same construction with other options, whose measured calls are reused. A
    mutation of the target is applied last. Recent subjects are cached; each call copies its object, so uses
    do not affect one another.
    """
    return _mutated(target, condition or Condition(), like)


# Cached subjects, and the bytes that they may hold together.
KEPT, BYTES = 24, 768 * 2**20
# Bytes from which on a subject is freed at once.
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
    """Drop the least recently used subjects until one more fits. Large ones are collected at once, since
    objects hold reference cycles.
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

    # Mutants share one host, and the results of calls that they do not change.
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

        # The mutation holds for a refined solver, too.
        return replace(changed, refined=again)

    return mutated(subject)


def weights_digest(target: Target) -> str:
    """A digest of the weights file of a target; empty if there is none."""
    if weights_of(target) is None:  # no weights
        return ""
    weights = recipe_of(target).source.weights
    return "" if weights is None else weights.digest


def forget() -> None:
    """Clear the cache (files may have changed)."""
    _KEPT.clear()
    forget_recipes()


def snapshot(obj: Any, name: str = "") -> Target:
    """Register a live object, or what a class or factory makes, by copying it now, and return its target.

    The target is called ``name``, or after its state. Raises `TargetError` if a class or a factory needs
    arguments, or raises.
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
