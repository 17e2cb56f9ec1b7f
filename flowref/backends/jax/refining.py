"""An object with more steps of its solver: made anew, for a pytree does not change."""

from __future__ import annotations

import copy
import functools
from typing import Any

from flowref.backends.jax.trees import DEEPEST
from flowref.backends.knobs import finer


def refined(obj: Any, times: int) -> tuple[Any, bool]:
    """The object with the knobs of its solvers turned, and whether there are any."""
    turned: list[str] = []
    return _refined(obj, times, turned, 0), bool(turned)


def _refined(obj: Any, times: int, turned: list[str], depth: int) -> Any:
    if depth > DEEPEST:
        return obj
    if isinstance(obj, functools.partial):
        named = _values(obj.keywords, times, turned, depth)
        args = [_refined(one, times, turned, depth + 1) for one in obj.args]
        return functools.partial(obj.func, *args, **named)
    if type(obj) is dict:
        return _values(obj, times, turned, depth)
    if type(obj) in (list, tuple):
        return type(obj)(_refined(one, times, turned, depth + 1) for one in obj)
    if isinstance(obj, type) or not isinstance(getattr(obj, "__dict__", None), dict):
        return obj
    before = len(turned)
    values = _values(vars(obj), times, turned, depth)
    if len(turned) == before:
        return obj
    made = copy.copy(obj)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _values(held: dict[str, Any], times: int, turned: list[str], depth: int) -> dict[str, Any]:
    found = {}
    for name, value in held.items():
        turn = finer(name, value, times) if isinstance(name, str) else None
        if turn is not None:
            turned.append(name)
        found[name] = _refined(value, times, turned, depth + 1) if turn is None else turn
    return found
