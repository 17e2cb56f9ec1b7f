"""Distinguish classes and factory functions from objects."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def is_factory(value: Any) -> bool:
    """Whether a live object has to be called to get the audited object: a class, or a function callable
    without arguments.
    """
    if isinstance(value, type):
        return True
    made = inspect.isroutine(value) or isinstance(value, functools.partial)
    return made and _required(value) == []


def wants(value: Any) -> list[str]:
    """The required arguments of a class, or of a function with several; a function of one may be a map
    itself.
    """
    made = isinstance(value, type) or inspect.isroutine(value)
    names = (_required(value) or []) if made else []
    return names if isinstance(value, type) or len(names) > 1 else []


def _required(value: Any) -> list[str] | None:
    """The required arguments; None if there is no signature, as for C functions."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
