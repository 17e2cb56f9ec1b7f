"""Facts from signatures of methods."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
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

# Parameters that are times, and endings by which names of a point's parts differ.
TIME = re.compile(r"(time|timestep|t|tau)s?")
ENDING = re.compile(r"(\d|left|right|lower|upper|first|second|a|b|l|r)$")
# Frameworks whose classes are bases of users' classes.
FRAMEWORKS = ("torch", "jax", "equinox", "flax", "builtins", "abc")
# Usual attributes for the names of the arrays that make up a point.
POINT_NAMES = (
    "event_names", "event_shapes", "names", "parameters", "parameter_names", "param_names", "keys", "variables",
    "columns", "fields",
)  # fmt: skip
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def attribute(obj: Any, name: str) -> Any:
    """An attribute, or None if it is missing or its property raises."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def demand(obj: Any, option: str, name: str, more: str = "") -> None:
    """Raise `SpecError` if an option names no method of an object; ``more``: further allowed values."""
    if not callable(attribute(obj, name)):
        methods = [one for one in dir(obj) if not one.startswith("_")]
        raise SpecError(
            f"{option} was given as {name!r}, which is no method of the {type(obj).__name__}"
            f"{nearest(name, methods)}{more}"
        )


def method_parameters(obj: Any, method: str) -> list[inspect.Parameter]:
    """The parameters of a method after self; empty if there is no signature."""
    return parameters_of(attribute(obj, method) if method else obj)


def required(obj: Any, method: str) -> list[str]:
    """Positional parameters without a default."""
    return [
        one.name
        for one in method_parameters(obj, method)
        if one.kind in POSITIONAL and one.default is one.empty
    ]


def takes_time_alone(obj: Any, method: str) -> bool:
    """Whether a method takes a time and no more, by its name, as a schedule of noise does."""
    asked = required(obj, method)
    return len(asked) == 1 and bool(TIME.fullmatch(normalized_name(asked[0])))


def required_by_name(obj: Any, method: str) -> list[str]:
    """Keyword-only parameters without a default."""
    taken = method_parameters(obj, method)
    return [one.name for one in taken if one.kind is one.KEYWORD_ONLY and one.default is one.empty]


def by_keyword(obj: Any, method: str) -> str:
    """The required keyword-only parameter of a method with one positional argument; else empty."""
    taken = method_parameters(obj, method)
    places = [one for one in taken if one.kind in (*POSITIONAL, inspect.Parameter.VAR_POSITIONAL)]
    named = required_by_name(obj, method)
    certain = len(places) == len(named) == 1 and normalized_name(named[0]) not in (
        *FLAGS,
        "mode",
        "direction",
    )
    return named[0] if certain and not sign_of(named[0]) else ""


def keyword_context_parameter(obj: Any, method: str, place: int) -> str:
    """A context parameter with default None after position ``place`` that must be passed by name, since
    others precede it; empty if there is none.
    """
    taken = method_parameters(obj, method)
    places = [index for index, one in enumerate(taken) if one.default is None]
    known = [index for index in places if is_context(taken[index].name)]
    found = known or [index for index in places if may_be_context(taken[index].name)]
    return taken[found[0]].name if found and found[0] > place else ""


def unpacked(obj: Any, method: str) -> tuple[str, ...]:
    """The names into which a method unpacks its only argument; empty if it takes more, or does not unpack."""
    names, tree = required(obj, method), code_of(attribute(obj, method))
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and names == [getattr(node.value, "id", "")]:
            parts = getattr(node.targets[0], "elts", ())
            if parts and all(isinstance(part, ast.Name) for part in parts):
                return tuple(part.id for part in parts)
    return ()


def names_read(obj: Any, method: str) -> list[str]:
    """The keys that a method reads from its only argument, a dictionary; empty if it takes more."""
    names, tree = required(obj, method), code_of(attribute(obj, method) if method else obj)
    read = [
        node.slice.value
        for node in (ast.walk(tree) if tree and len(names) == 1 else ())
        if isinstance(node, ast.Subscript)
        and getattr(node.value, "id", "") == names[0]
        and isinstance(node.slice, ast.Constant)
    ]
    return list(dict.fromkeys(key for key in read if isinstance(key, str)))


def stated_point_names(obj: Any) -> dict[str, int]:
    """The names of the arrays that make up a point, with the features of each, 0 if undetermined, as an
    attribute states them; else empty.
    """
    for name in POINT_NAMES:
        stated = attribute(obj, name)
        if not stated or not isinstance(stated, Mapping | list | tuple):
            continue
        if not all(isinstance(one, str) for one in stated):
            continue
        if not isinstance(stated, Mapping):
            return dict.fromkeys(stated, 0)
        sizes = [sum(one) for one in stated.values() if isinstance(one, tuple) and len(one) < 2]
        if len(sizes) == len(stated):
            return dict(zip(stated, sizes, strict=True))
    return {}


def point_names(obj: Any, method: str) -> dict[str, int]:
    """The names of the arrays that make up a point, as stated, as a method reads them from its only
    argument, or as it takes them by keyword. Empty if points are one array.
    """
    read = [key for key in names_read(obj, method) if not sign_of(key)]
    return stated_point_names(obj) or dict.fromkeys(read or keyword_names(obj, method), 0)


def keyword_names(obj: Any, method: str) -> list[str]:
    """The names of several keyword-only parameters of a method that takes nothing else; else empty."""
    names = required_by_name(obj, method)
    alone = len(names) > 1 and len(method_parameters(obj, method)) == len(names)
    return names if alone and not any(map(is_context, names)) else []


def keys(obj: Any, method: str) -> tuple[str, ...]:
    """The keys of value and running log-det, if a method reads exactly these from its only argument; else
    empty.
    """
    found = names_read(obj, method)
    values = [key for key in found if normalized_name(key) in VALUES]
    running = [key for key in found if sign_of(key)]
    alone = len(values) == len(running) == 1 and len(found) == 2
    return (values[0], running[0]) if alone else ()


def second(obj: Any, method: str) -> str:
    """The second positional parameter, unless it is a flag; else empty."""
    places = [one for one in method_parameters(obj, method) if one.kind in POSITIONAL]
    certain = len(places) > 1 and not isinstance(places[1].default, bool)
    return places[1].name if certain else ""


def from_zero(obj: Any, method: str) -> bool:
    """Whether the second positional parameter is a number with default zero."""
    places = [one for one in method_parameters(obj, method) if one.kind in POSITIONAL]
    return len(places) > 1 and type(places[1].default) in (int, float) and places[1].default == 0


def later(obj: Any, method: str) -> list[str]:
    """Positional parameters after the second without a default, or with default None."""
    return [
        one.name
        for one in method_parameters(obj, method)[2:]
        if one.default is None or (one.kind in POSITIONAL and one.default is one.empty)
    ]


def first_matching_parameter(
    obj: Any, method: str, names: Callable[[str], Any], default: Any
) -> str:
    """The first parameter with this default and a matching name; else empty."""
    taken = method_parameters(obj, method)
    return next((one.name for one in taken if one.default is default and names(one.name)), "")


def switch(obj: Any, method: str) -> str:
    """The flag that makes a method return the log-det; else empty."""
    return first_matching_parameter(obj, method, lambda name: sign_of(name) == "add", False)


def point_part_count(obj: Any, method: str) -> int:
    """The number of parts of a point that a method takes as separate parameters, such as x1 and x2, or
    x_left and x_right; else 0.
    """
    names = [normalized_name(name) for name in required(obj, method)]
    if len(names) not in (2, 3) or len(set(names)) < len(names):
        return 0
    stems = {ENDING.sub("", name) for name in names}
    return len(names) if len(stems) == 1 and "" not in stems else 0


def time_interval_parameters(obj: Any, method: str) -> tuple[tuple[str, float], ...]:
    """The parameters for the ends of a time interval with their defaults (0 and 1 if none); else empty."""
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
    """The parameter for a time interval besides points, required or with default (0, 1); else empty."""
    names = required(obj, method)
    if len(names) == 2:
        return names[1] if normalized_name(names[1]) in SPANS else ""
    timed = (
        one for one in method_parameters(obj, method)[1:] if normalized_name(one.name) in SPANS
    )
    return next((one.name for one in timed if len(names) == 1 and _from_0_to_1(one.default)), "")


def _from_0_to_1(default: Any) -> bool:
    try:
        return [float(time) for time in default] == [0.0, 1.0]
    except (TypeError, ValueError):
        return False


def flag(obj: Any, method: str, default: bool = False) -> str:
    """The flag, of this default, that reverses a method; else empty."""
    return first_matching_parameter(
        obj, method, lambda name: normalized_name(name) in FLAGS, default
    )


def reconstructs(obj: Any, method: str) -> str:
    """The flag of an inverse for inputs that are results of forward; else empty."""
    return first_matching_parameter(
        obj, method, lambda name: normalized_name(name) in RECONSTRUCTS, False
    )


def mode_parameter(obj: Any, method: str) -> tuple[str, tuple[Any, ...]]:
    """The parameter ``mode`` with a word as default, and the words in the code's constants that reverse it.
    Code that compares with the default alone has a branch for any other word: then the usual one is used. A
    default of 1 or -1 is reversed by its negative.
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
    """Whether the class of an object defines a non-static method itself, rather than inherit it from a
    framework.
    """
    for base in type(obj).__mro__:
        if name in vars(base):
            foreign = base.__module__.partition(".")[0] in FRAMEWORKS
            bare = isinstance(vars(base)[name], staticmethod | classmethod)
            return not foreign and not bare and inspect.isfunction(inspect.unwrap(vars(base)[name]))
    return False


def methods(obj: Any) -> list[str]:
    """Methods with one required argument that the object's own classes define."""
    names = dict.fromkeys(name for base in type(obj).__mro__ for name in vars(base))
    return [name for name in names if defines_method(obj, name) and len(required(obj, name)) == 1]


def refuses(obj: Any, method: str) -> bool:
    """Whether a method does nothing but raise, as the inverse of a map without one."""
    tree = code_of(getattr(type(obj), method, None))
    body = tree.body[0].body if tree and isinstance(tree.body[0], ast.FunctionDef) else []
    said = [one for one in body if not (isinstance(one, ast.Expr) and _is_text(one.value))]
    return bool(said) and isinstance(said[0], ast.Raise)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def taken_by(obj: Any) -> bool:
    """Whether an object defines ``forward`` itself, rather than inherit a base's placeholder."""
    method = getattr(type(obj), "forward", None)
    if method is None or getattr(method, "__name__", "") == "_forward_unimplemented":
        return hasattr(obj, "forward") and method is None
    return True
