"""What the signature of a method tells."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from flowref.adapters.common.signatures import code_of, parameters_of
from flowref.adapters.user.conventions.names import (
    BACKWARDS,
    ENDS,
    FLAGS,
    RECONSTRUCTS,
    SIGNS,
    SPANS,
    VALUES,
    is_context,
    may_be_context,
    normalized_name,
    sign_of,
)
from flowref.model import SpecError, nearest

# What parts of a point differ by in their names.
ENDING = re.compile(r"(\d|left|right|lower|upper|first|second|a|b|l|r)$")
# Whose classes are bases of users' own.
FRAMEWORKS = ("torch", "jax", "equinox", "flax", "builtins", "abc")
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def attribute(obj: Any, name: str) -> Any:
    """An attribute, or None where there is none: a property may compute, and fail."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def demand(obj: Any, option: str, name: str, more: str = "") -> None:
    """Raise `SpecError` where an option names no method of an object; ``more``: what else it may say."""
    if not callable(attribute(obj, name)):
        methods = [one for one in dir(obj) if not one.startswith("_")]
        raise SpecError(
            f"{option} was given as {name!r}, which is no method of the {type(obj).__name__}"
            f"{nearest(name, methods)}{more}"
        )


def method_parameters(obj: Any, method: str) -> list[inspect.Parameter]:
    """The parameters of a method after the object itself; none where it does not tell."""
    return parameters_of(attribute(obj, method) if method else obj)


def required(obj: Any, method: str) -> list[str]:
    """The positional parameters without a default."""
    return [
        one.name
        for one in method_parameters(obj, method)
        if one.kind in POSITIONAL and one.default is one.empty
    ]


def required_by_name(obj: Any, method: str) -> list[str]:
    """The parameters without a default that are taken by keyword alone."""
    taken = method_parameters(obj, method)
    return [one.name for one in taken if one.kind is one.KEYWORD_ONLY and one.default is one.empty]


def by_keyword(obj: Any, method: str) -> str:
    """The parameter that a method cannot do without and takes by keyword alone, where it takes one
    argument by place; empty otherwise.
    """
    taken = method_parameters(obj, method)
    places = [one for one in taken if one.kind in (*POSITIONAL, inspect.Parameter.VAR_POSITIONAL)]
    named = required_by_name(obj, method)
    told = len(places) == len(named) == 1 and normalized_name(named[0]) not in (
        *FLAGS,
        "mode",
        "direction",
    )
    return named[0] if told and not sign_of(named[0]) else ""


def keyword_context_parameter(obj: Any, method: str, place: int) -> str:
    """The parameter for a context that is None by default and stands behind this place, where another may be
    given before it: it is taken by its name. Empty where there is none.
    """
    taken = method_parameters(obj, method)
    places = [index for index, one in enumerate(taken) if one.default is None]
    known = [index for index in places if is_context(taken[index].name)]
    found = known or [index for index in places if may_be_context(taken[index].name)]
    return taken[found[0]].name if found and found[0] > place else ""


def unpacked(obj: Any, method: str) -> tuple[str, ...]:
    """The names that the code of a method gives to the parts of its one argument; empty where it takes
    more, or no apart.
    """
    names, tree = required(obj, method), code_of(attribute(obj, method))
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and names == [getattr(node.value, "id", "")]:
            parts = getattr(node.targets[0], "elts", ())
            if parts and all(isinstance(part, ast.Name) for part in parts):
                return tuple(part.id for part in parts)
    return ()


def names_read(obj: Any, method: str) -> list[str]:
    """The names by which the code of a method reads its one argument, a dictionary; none where it takes more."""
    names, tree = required(obj, method), code_of(attribute(obj, method))
    read = [
        node.slice.value
        for node in (ast.walk(tree) if tree and len(names) == 1 else ())
        if isinstance(node, ast.Subscript)
        and getattr(node.value, "id", "") == names[0]
        and isinstance(node.slice, ast.Constant)
    ]
    return list(dict.fromkeys(key for key in read if isinstance(key, str)))


def keys(obj: Any, method: str) -> tuple[str, ...]:
    """Those of a value and of a running log-det, where a method reads nothing else of its one argument."""
    found = names_read(obj, method)
    values = [key for key in found if normalized_name(key) in VALUES]
    running = [key for key in found if sign_of(key)]
    alone = len(values) == len(running) == 1 and len(found) == 2
    return (values[0], running[0]) if alone else ()


def second(obj: Any, method: str) -> str:
    """The name of the second positional parameter, or nothing; a switch is none."""
    places = [one for one in method_parameters(obj, method) if one.kind in POSITIONAL]
    told = len(places) > 1 and not isinstance(places[1].default, bool)
    return places[1].name if told else ""


def from_zero(obj: Any, method: str) -> bool:
    """Whether the second positional parameter is a number that is zero by default."""
    places = [one for one in method_parameters(obj, method) if one.kind in POSITIONAL]
    return len(places) > 1 and type(places[1].default) in (int, float) and places[1].default == 0


def later(obj: Any, method: str) -> list[str]:
    """The names of positional parameters after the second that have no default, or None."""
    return [
        one.name
        for one in method_parameters(obj, method)[2:]
        if one.default is None or (one.kind in POSITIONAL and one.default is one.empty)
    ]


def first_matching_parameter(
    obj: Any, method: str, names: Callable[[str], Any], default: Any
) -> str:
    """The first parameter of that default whose name is one of some, or nothing."""
    taken = method_parameters(obj, method)
    return next((one.name for one in taken if one.default is default and names(one.name)), "")


def switch(obj: Any, method: str) -> str:
    """The parameter that asks for the log-det, which is not returned by default, or nothing."""
    return first_matching_parameter(obj, method, lambda name: sign_of(name) == "add", False)


def point_part_count(obj: Any, method: str) -> int:
    """How many parts of a point a method takes, where its parameters without a default are called
    alike up to an ending, as x1 and x2, or x_left and x_right; 0 where they are not.
    """
    names = [normalized_name(name) for name in required(obj, method)]
    if len(names) not in (2, 3) or len(set(names)) < len(names):
        return 0
    stems = {ENDING.sub("", name) for name in names}
    return len(names) if len(stems) == 1 and "" not in stems else 0


def time_interval_parameters(obj: Any, method: str) -> tuple[tuple[str, float], ...]:
    """The parameters for the two ends of a time interval, with their values: their defaults, or 0 and 1 where
    they have none; empty where a method has no such parameters.
    """
    named = {normalized_name(one.name): one for one in method_parameters(obj, method)}
    for pair in ENDS:
        if not all(name in named for name in pair):
            continue
        given = [named[name].default for name in pair]
        if all(one is inspect.Parameter.empty for one in given):
            given = [0.0, 1.0]
        if all(type(one) in (int, float) for one in given) and given[0] != given[1]:
            return tuple((named[name].name, one) for name, one in zip(pair, given, strict=True))
    return ()


def span(obj: Any, method: str) -> str:
    """The parameter for a time interval that a method takes besides points, without a default or with the
    times from 0 to 1 as that, or nothing.
    """
    names = required(obj, method)
    if len(names) == 2:
        return names[1] if normalized_name(names[1]) in SPANS else ""
    timed = (
        one for one in method_parameters(obj, method)[1:] if normalized_name(one.name) in SPANS
    )
    return next((one.name for one in timed if len(names) == 1 and _from_0_to_1(one.default)), "")


def _from_0_to_1(default: Any) -> bool:
    """Whether a default is the times 0 and 1."""
    try:
        return [float(time) for time in default] == [0.0, 1.0]
    except (TypeError, ValueError):
        return False


def flag(obj: Any, method: str, default: bool = False) -> str:
    """The parameter of that default that turns a method around, or nothing."""
    return first_matching_parameter(
        obj, method, lambda name: normalized_name(name) in FLAGS, default
    )


def reconstructs(obj: Any, method: str) -> str:
    """The parameter of a way back that has it take latents for what forward returned, or nothing."""
    return first_matching_parameter(
        obj, method, lambda name: normalized_name(name) in RECONSTRUCTS, False
    )


def mode_parameter(obj: Any, method: str) -> tuple[str, tuple[Any, ...]]:
    """The parameter ``mode`` with a word as its default, and the words among the constants of the
    code that turn it around. Code that asks for the default word and knows none of the
    others has a branch for whatever else is given: then the usual one stands for all. A default of
    1 or -1 is a sign: the other one turns it around.
    """
    for one in method_parameters(obj, method):
        if (
            normalized_name(one.name) in SIGNS
            and type(one.default) is int
            and abs(one.default) == 1
        ):
            return one.name, (-one.default,)
        if normalized_name(one.name) in ("mode", "direction") and isinstance(one.default, str):
            texts = dict.fromkeys(_string_constants(_code(obj, method)))
            turned = [
                text for text in texts if normalized_name(text) in BACKWARDS and text != one.default
            ]
            otherwise = (BACKWARDS[0],) if one.default in texts else ()
            return one.name, tuple(turned) or otherwise
    return "", ()


def _code(obj: Any, method: str) -> Any:
    run = attribute(obj, method) if method else obj
    return getattr(getattr(inspect.unwrap(run), "__func__", run), "__code__", None)


def _string_constants(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, frozenset)):
        for entry in sorted(value, key=repr):
            yield from _string_constants(entry)
    elif hasattr(value, "co_consts"):
        names = [entry for entry in value.co_consts if entry != value.co_name]
        yield from _string_constants(tuple(entry for entry in names if not _long(entry)))


def _long(value: Any) -> bool:
    """Whether a constant is a sentence, such as a docstring."""
    return isinstance(value, str) and " " in value


def defines_method(obj: Any, name: str) -> bool:
    """Whether the class of an object defines a method itself: not inherited from a framework, and
    not static.
    """
    for base in type(obj).__mro__:
        if name in vars(base):
            foreign = base.__module__.partition(".")[0] in FRAMEWORKS
            bare = isinstance(vars(base)[name], staticmethod | classmethod)
            return not foreign and not bare and inspect.isfunction(inspect.unwrap(vars(base)[name]))
    return False


def methods(obj: Any) -> list[str]:
    """The methods that the classes of an object define themselves, which ask for one argument."""
    names = dict.fromkeys(name for base in type(obj).__mro__ for name in vars(base))
    return [name for name in names if defines_method(obj, name) and len(required(obj, name)) == 1]


def refuses(obj: Any, method: str) -> bool:
    """Whether all that a method does is to raise, as the way back does of a map that has none."""
    tree = code_of(getattr(type(obj), method, None))
    body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else []
    said = [one for one in body if not (isinstance(one, ast.Expr) and _is_text(one.value))]
    return bool(said) and isinstance(said[0], ast.Raise)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def taken_by(obj: Any) -> bool:
    """Whether an object offers the method ``forward`` as its own, and no placeholder of a base."""
    method = getattr(type(obj), "forward", None)
    if method is None or getattr(method, "__name__", "") == "_forward_unimplemented":
        return hasattr(obj, "forward") and method is None
    return True
