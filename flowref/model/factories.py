"""Classes and functions that make what is meant, among values that are meant themselves."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def is_factory(value: Any) -> bool:
    """Whether a live object makes what is meant: a class, or a function that can be called without
    arguments.
    """
    if isinstance(value, type):
        return True
    made = inspect.isroutine(value) or isinstance(value, functools.partial)
    return made and _required(value) == []


def wants(value: Any) -> list[str]:
    """The arguments that a class must be given, or a function that wants several; a function of one
    may be a map itself.
    """
    made = isinstance(value, type) or inspect.isroutine(value)
    names = (_required(value) or []) if made else []
    return names if isinstance(value, type) or len(names) > 1 else []


def _required(value: Any) -> list[str] | None:
    """The arguments without a default; None where its signature is not told, as of functions in C."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
