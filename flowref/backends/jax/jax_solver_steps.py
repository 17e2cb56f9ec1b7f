"""Copies of an object with finer solver settings: a pytree cannot be changed."""

from __future__ import annotations

import contextlib
import copy
import functools
from typing import Any

from flowref.backends.jax.jax_objects import PACKAGES
from flowref.backends.jax.trees import DEEPEST
from flowref.backends.knobs import finer


def refined(obj: Any, times: int) -> tuple[Any, bool]:
    """Returns the object with refined solver settings, and whether it has any."""
    turned: list[str] = []
    return _refined(obj, times, turned, 0), bool(turned)


def _refined(obj: Any, times: int, turned: list[str], depth: int) -> Any:
    if depth > DEEPEST:
        return obj
    if isinstance(obj, functools.partial):
        named = _refined_attributes(obj.keywords, times, turned, depth)
        args = [_refined(one, times, turned, depth + 1) for one in obj.args]
        return functools.partial(obj.func, *args, **named)
    if type(obj) is dict:
        return _refined_attributes(obj, times, turned, depth)
    if type(obj) in (list, tuple):
        return type(obj)(_refined(one, times, turned, depth + 1) for one in obj)
    if isinstance(obj, type) or not isinstance(getattr(obj, "__dict__", None), dict):
        return obj
    before = len(turned)
    values = _refined_attributes(vars(obj), times, turned, depth)
    of_class = _refined_class_settings(obj, times)
    if len(turned) == before and not of_class:
        return obj
    made = copy.copy(obj)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    if of_class and _set_class_settings(made, of_class):
        turned += of_class
    return made


def _refined_attributes(
    held: dict[str, Any], times: int, turned: list[str], depth: int
) -> dict[str, Any]:
    found = {}
    for name, value in held.items():
        turn = finer(name, value, times) if isinstance(name, str) else None
        if turn is not None:
            turned.append(name)
        found[name] = _refined(value, times, turned, depth + 1) if turn is None else turn
    return found


def _refined_class_settings(obj: Any, times: int) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for base in reversed(type(obj).__mro__):
        if base.__module__.partition(".")[0] not in PACKAGES:
            held |= vars(base)
    turned = {name: finer(name, held[name], times) for name in held.keys() - vars(obj).keys()}
    return {name: turn for name, turn in turned.items() if turn is not None}


def _set_class_settings(made: Any, knobs: dict[str, Any]) -> bool:
    """Set solver settings of the class on a copy; returns whether that worked. A pytree, and a
    module that is rebuilt in each call, keep only their fields: they get a class of their own.
    """
    import jax

    kind: Any = type(made)
    libraries = {base.__module__.partition(".")[0] for base in kind.__mro__} & PACKAGES
    tree = not jax.tree_util.all_leaves([made])
    if not tree and not libraries:
        for name, value in knobs.items():
            object.__setattr__(made, name, value)
        return True
    try:
        derived = _derived(kind, tuple(sorted(knobs.items())), tree)
        object.__setattr__(made, "__class__", derived)
    except Exception:  # the class cannot be derived from
        return False
    return True


@functools.cache
def _derived(kind: type, knobs: tuple[tuple[str, Any], ...], tree: bool) -> type:
    """A derived class with other settings; ``tree``: whether its objects are flattened like those
    of the base.
    """
    import jax

    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **dict(knobs)}
    derived: type = type(kind)(kind.__name__, (kind,), own)

    def flatten(obj: Any) -> Any:
        plain = copy.copy(obj)
        object.__setattr__(plain, "__class__", kind)
        return jax.tree_util.tree_flatten(plain, is_leaf=lambda part: part is not plain)

    def unflatten(structure: Any, parts: Any) -> Any:
        made = jax.tree_util.tree_unflatten(structure, parts)
        object.__setattr__(made, "__class__", derived)
        return made

    if tree:
        with contextlib.suppress(ValueError):  # some libraries register derived classes themselves
            jax.tree_util.register_pytree_node(derived, flatten, unflatten)
    return derived
