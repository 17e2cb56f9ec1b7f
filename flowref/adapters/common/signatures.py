"""The parameters of functions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import partial
from typing import Any

# Parameters that take any number of arguments.
MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters_of(run: Any) -> list[inspect.Parameter]:
    """The parameters of a function; none where it does not tell, as compiled code does not."""
    try:
        return list(inspect.signature(run).parameters.values())
    except Exception:  # as of what its signature itself raises
        return []


def parameter_names(run: Any) -> list[str]:
    """All parameters of a function, by name."""
    return [one.name for one in parameters_of(run)]


def required(run: Any) -> list[str]:
    """The parameters of a function that have no default."""
    parameters = parameters_of(run)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in MANY]


def code_of(written: Any) -> ast.Module | None:
    """The code of a function or of a class; None where there is none that can be read."""
    while isinstance(written, partial):
        written = written.func
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(written)))
    except (OSError, TypeError, SyntaxError):
        return None
