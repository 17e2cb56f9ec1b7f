"""What an object, its class or its factory declares in `__flow__`, as options of its spec."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from flowref import registry
from flowref.adapters.user.facts import support_stated
from flowref.model import SpecError, Support, nearest, one_line
from flowref.model.declaration import (
    CONTEXT,
    FLOW,
    KEYS,
    LIST,
    OF_A_RUN,
    SHAPE,
    STATED,
    SUPPORT,
    VERSION,
    VERSIONS,
    Key,
)
from flowref.model.promises import ANYONE, MAPPING, checked

# Declared direction -> value of ?normalizing=.
DIRECTIONS = {"data->latent": "forward", "latent->data": "inverse"}


def declaration_of(obj: Any, factory: Any, target: str) -> dict[str, str]:
    """The declared options of an object; a declaration of its factory takes precedence over its own.

    Raises `SpecError` in one sentence for an invalid declaration.
    """
    made = obj if isinstance(obj, tuple | list) else ()
    owners = next(([one] for one in (obj, *made) if has_declaration(one)), [])
    if factory is not None and has_declaration(factory):
        owners.append(factory)
    found: dict[str, str] = {}
    for owner in owners:
        found |= _read(owner, target)
    return found


def has_declaration(owner: Any) -> bool:
    """Whether a declaration exists; read statically, since mocks answer to every name."""
    return inspect.getattr_static(owner, FLOW, None) is not None


def home_of(obj: Any, factory: Any) -> str:
    """The top-level package of the class that declares an object; empty if a factory or the object itself
    does.
    """
    if factory is not None and has_declaration(factory):
        return ""
    kinds = (kind for kind in type(obj).__mro__ if FLOW in vars(kind))
    return next((kind.__module__.partition(".")[0] for kind in kinds), "")


def declared_words(declared: Mapping[str, str]) -> tuple[str, ...]:
    """The sentences that report a declaration."""
    said = ", ".join(stated_as(name, text) for name, text in declared.items())
    return (f"its {FLOW} says {said}",) if said else ()


def stated_as(option: str, text: str) -> str:
    """An option in the notation of the declaration."""
    key = next(key for key in KEYS.values() if option == (key.option or key.name))
    words = {said: stated for stated, said in DIRECTIONS.items()} if key.option else {}
    return f"{key.name} {words.get(text, text)}"


def _read(owner: Any, target: str) -> dict[str, str]:
    named = owner if inspect.isroutine(owner) or isinstance(owner, type) else type(owner)
    whose = f"{target}: {FLOW} of {named.__name__}"
    try:
        stated = getattr(owner, FLOW)
    except Exception as error:
        raise SpecError(
            f"{whose} raises {one_line(error, 200)}; it is to be a dictionary"
        ) from error
    if not isinstance(stated, Mapping):
        raise SpecError(
            f"{whose} is {stated!r}; expected a dictionary, as {{{VERSION!r}: {VERSIONS[-1]}, 'event': (3,)}}"
        )
    version = stated.get(VERSION)
    if version not in VERSIONS or isinstance(version, bool):
        known = " or ".join(map(str, VERSIONS))
        said = f"says version {version!r}" if VERSION in stated else "says no version"
        raise SpecError(
            f"{whose} {said}; this flowref reads version {known}: write {VERSION!r}: {VERSIONS[-1]}, or take a newer flowref"
        )
    texts = {}
    for name, value in stated.items():
        if name == VERSION or value is None:
            continue
        if name not in KEYS:
            why = "is an option of a run, and cannot be declared"
            near = f"is no key of version {version}{nearest(str(name), KEYS)}; docs/guides/declaration.md lists them"
            raise SpecError(f"{whose}: {name!r} {why if name in OF_A_RUN else near}")
        key = KEYS[name]
        text = _typed_value(key, value, whose)
        texts[key.option or name] = DIRECTIONS.get(text, text)
    return texts


def _typed_value(key: Key, value: Any, whose: str) -> str:
    text = READ[key.kind](value, whose) if key.kind in READ else _typed(value)
    if text is None or (key.words and text not in key.words):
        raise SpecError(
            f"{whose}: {key.name!r} is {value!r}; expected {key.expected}, as in {{{key.name!r}: {key.example!r}}}"
        )
    return text


def _typed(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _shape(value: Any, whose: str) -> str | None:
    sizes = [value] if type(value) is int else value
    if not isinstance(sizes, tuple | list) or any(
        type(size) is not int or size < 1 for size in sizes
    ):
        return None
    return ",".join(map(str, sizes)) or "()"


def _context(value: Any, whose: str) -> str | None:
    return value if value == "labels" else _shape(value, whose) if value != () else None


def _support(value: Any, whose: str) -> str | None:
    try:
        support = support_stated(value)
    except SpecError as error:
        raise SpecError(f"{whose}: {error}") from error
    return None if support is None else _typed_support(support)


def _typed_support(support: Support) -> str:
    if support.coordinates:
        return ",".join(map(_typed_support, support.coordinates))
    return f"({support.low!r},{support.high!r})" if support.kind == "interval" else support.kind


def _list(value: Any, whose: str) -> str | None:
    if type(value) in (int, float):
        return repr(value)
    if isinstance(value, tuple | list) and value:
        return (
            ",".join(map(str, value))
            if all(isinstance(one, str | int | float) for one in value)
            else None
        )
    return _typed(value)


def _promises(value: Any, whose: str) -> str | None:
    stated = dict.fromkeys(value, True) if isinstance(value, tuple | list | set) else value
    if not isinstance(stated, Mapping) or not all(isinstance(name, str) for name in stated):
        return None
    made = checked(stated, registry.promises(), ANYONE, whose)
    if of_mapping := [name for name in made if registry.promises()[name].kind == MAPPING]:
        raise SpecError(
            f"{whose}: {of_mapping[0]} takes a mapping; state it in the attribute promises"
        )
    return ",".join(f"{name}={one!r}".replace("'", "") for name, one in made.items())


READ = {SHAPE: _shape, CONTEXT: _context, SUPPORT: _support, LIST: _list, STATED: _promises}
