"""Arguments of calls: bound to the parameters of our functions, or without redundant ones."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from flowref.scripting.functions import Function
from flowref.scripting.names import Unwritable
from flowref.scripting.operands import UNKNOWN, Env, Operand

Write = Callable[[Operand], ast.expr]


def bound(function: Function, given: list[Operand], options: Env, write: Write) -> Env:
    """Return the operand of each parameter that a call gives. Raises: `Unwritable` for unknown
    keywords.
    """
    arguments = function.node.args
    parameters = [argument.arg for argument in arguments.args]
    taken = {*parameters, *(argument.arg for argument in arguments.kwonlyargs)}
    env = dict(zip(parameters, given, strict=False))
    env |= {name: value for name, value in options.items() if name in taken}
    others = {name: value for name, value in options.items() if name not in taken}
    if arguments.vararg:
        rest = [write(one) for one in given[len(parameters) :]]
        env[arguments.vararg.arg] = Operand(node=ast.Tuple(rest, ast.Load()))
    if arguments.kwarg:
        env[arguments.kwarg.arg] = _mapping(others, write)
    elif others:
        raise Unwritable(f"{function.name} does not take {', '.join(sorted(others))}")
    return env


def _mapping(options: Env, write: Write) -> Operand:
    if all(value.constant for value in options.values()):
        return Operand({name: value.value for name, value in options.items()})
    keys: list[ast.expr | None] = [ast.Constant(name) for name in options]
    return Operand(node=ast.Dict(keys, [write(one) for one in options.values()]))


def defaults(function: Function, of: Callable[[ast.expr], Operand]) -> Env:
    """Return the operand of each parameter with a default; ``of`` evaluates those of a lambda or
    inner function, which has no live object.
    """
    if function.defaults:
        return {name: Operand(value) for name, value in function.defaults.items()}
    arguments = function.node.args
    names = [argument.arg for argument in arguments.args]
    last = names[len(names) - len(arguments.defaults) :]
    pairs = [*zip(last, arguments.defaults, strict=True)]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        pairs += [(argument.arg, default)] if default is not None else []
    return {name: of(default) for name, default in pairs}


def used_often(function: Function, env: Env) -> list[str]:
    """Parameters used more than once whose argument is neither a name nor a constant."""
    names = (part.id for part in ast.walk(function.node) if isinstance(part, ast.Name))
    count = Counter(names)
    plain = (ast.Attribute, ast.Tuple, ast.Dict)
    return [
        name
        for name, value in env.items()
        if count[name] > 1 and not value.simple and not isinstance(value.node, plain)
    ]


def without_annotations(arguments: ast.arguments) -> ast.arguments:
    """Parameters without annotations and defaults."""
    return parsed(", ".join(argument.arg for argument in arguments.args))


def parsed(parameters: str) -> ast.arguments:
    """Parameters from their source text."""
    function = ast.parse(f"lambda {parameters}: 0", mode="eval").body
    assert isinstance(function, ast.Lambda)
    return function.args


def without_defaults(target: Any, given: list[Operand], options: Env) -> tuple[list[Operand], Env]:
    """The arguments without Nones that equal the default."""
    none = [one for one in (*given[-1:], *options.values()) if one.constant and one.value is None]
    if not none or target is UNKNOWN or isinstance(target, BuiltinFunctionType):
        return given, options
    try:
        parameters = inspect.signature(getattr(target, "forward", target)).parameters
    except (TypeError, ValueError):
        return given, options
    order = list(parameters.values())

    def idle(operand: Operand, parameter: inspect.Parameter | None) -> bool:
        default = parameter is not None and parameter.default is None
        return default and operand.constant and operand.value is None

    options = {name: one for name, one in options.items() if not idle(one, parameters.get(name))}
    while given and len(given) <= len(order) and idle(given[-1], order[len(given) - 1]):
        given = given[:-1]
    return given, options
