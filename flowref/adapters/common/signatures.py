"""Parameters of functions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import partial
from typing import Any

# Variadic parameters.
MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters_of(run: Any) -> list[inspect.Parameter]:
    """The parameters of a function; empty if it has no signature, as compiled code."""
    try:
        return list(inspect.signature(_bound(run)).parameters.values())
    except Exception:  # any exception of the signature
        return []


def parameter_names(run: Any) -> list[str]:
    """The names of all parameters."""
    return [one.name for one in parameters_of(run)]


def required(run: Any) -> list[str]:
    """The names of parameters without a default."""
    parameters = parameters_of(run)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in MANY]


def code_of(written: Any) -> ast.Module | None:
    """The syntax tree of a function or class; None without source."""
    while isinstance(written := _bound(written), partial):
        written = written.func
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(written))))
    except (OSError, TypeError, SyntaxError):
        return None


def _bound(run: Any) -> Any:
    """The partial of functools for the one by which equinox binds compiled methods, which has no signature."""
    if type(run).__module__.startswith("equinox.") and type(run).__name__ == "Partial":
        return partial(run.func, *run.args, **run.keywords)
    return run
