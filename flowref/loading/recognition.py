"""Third stage: the kind of an object, its calls, and what its attributes state."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flowref import registry
from flowref.adapters.user.adapter import dialect_of
from flowref.adapters.user.conventions.names import (
    DENSE,
    DRAWING,
    FORWARDS,
    INVERSE_METHODS,
    LIKELY,
    NEGATIVE,
)
from flowref.adapters.user.conventions.separate_log_dets import NOTHING
from flowref.adapters.user.conventions.signatures import defines_method, demand, required
from flowref.adapters.user.conventions.user_choices import ROLES, choices, chosen_of
from flowref.loading.declaration import declared_words, home_of
from flowref.loading.factory import attributes, conflicts, overlaid, said_by
from flowref.loading.instance import Instance
from flowref.loading.options import event_option
from flowref.loading.ownership import libraries
from flowref.model import USER, Adapter, Dialect, Facts, Shape, Target, TargetError

# Methods that a refusal lists at most, and the remark on those that may be for training only.
SHOWN = 4
CONSTANT = ", constants and all,"


@dataclass(frozen=True)
class Recognition:
    """What an object was recognized as.

    ``adapter``: whose rules apply; ``why``: the class, attributes and methods that decided, a sentence
    each; ``conventions``, ``hints`` and ``conflicts`` (between object and factory): as in `Recognized`.
    """

    adapter: Adapter
    dialect: Dialect
    facts: Facts
    why: tuple[str, ...]
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def recognize(instance: Instance, event: Shape | None) -> Recognition:
    """Recognize an instance; ``event``: the stated event shape, or None.

    Raises `TargetError` in one sentence if nothing about it can be audited.
    """
    recognition = _recognized(instance, event)
    # Whatever the object is, it may call these, derive from their classes or contain their objects.
    modules = tuple(
        name
        for one in registry.adapters().values()
        if one.package in sys.modules
        for name in one.single_precision
    )
    return replace(recognition, facts=replace(recognition.facts, single_precision=modules))


def _recognized(instance: Instance, event: Shape | None) -> Recognition:
    target, statement = instance.source.target, instance.source.statement
    if statement is not None:
        adapter = statement.adapter
        why = (
            f"the adapter of {adapter.title} states how {target.component} is called and what it is"
        )
        return Recognition(adapter, statement.dialect, statement.facts, (why,))
    with instance.backend.sandbox(0, instance.dtype):
        obj = instance.copy()  # properties may compute, and adapters call
        factory = attributes(instance.source.factory)
        said = said_by(instance.source.factory)
        options, declared = instance.source.options, instance.source.declared
        home = None
        if called := {name: text for name, text in declared.items() if name in ROLES}:
            home = home_of(obj, instance.source.factory)
        adapter, dialect = adapter_of(obj, target, factory, instance.backend.name, options, home)
        if adapter.package:  # the library adapter knows its calls
            for name, text in called.items():
                if text.isidentifier() and text != NOTHING:
                    demand(obj, name, text)
        event = event or event_option(options)
        own = adapter.describe(obj, event or (said.event_shape if said else None) or None)
        facts = overlaid(own, said)
        read = (*declared_words(declared), *recognition_reasons(obj, adapter, dialect, facts))
        differing = conflicts(own, said, obj, instance.source.factory)
        return Recognition(adapter, dialect, facts, read, conflicts=tuple(differing))


def adapter_of(
    obj: Any,
    target: Target | str,
    factory: Any = None,
    backend: str = "",
    options: Mapping[str, str] | None = None,
    home: str | None = None,
) -> tuple[Adapter, Dialect]:
    """The adapter and calling convention of a live object: of the library of its class, else of user code
    in its framework, else by the protocol of user code.

    ``options``: those of its spec; ``home``: the package whose class declares its calls, or None;
    declarations precede what is known of other packages.
    """
    user, options = registry.adapters()[USER], options or {}
    for adapter in libraries(obj):
        if home is not None and adapter.package != home:
            continue
        if adapter.name != USER and (dialect := _of_library(adapter, obj)) is not None:
            return adapter, dialect
    own = [
        one
        for one in registry.adapters().values()
        if one.settles is not None and not one.package and one.backend == backend
    ]
    for adapter in own:
        heard, said = adapter.recognized, choices(obj, factory, options)
        if (dialect := heard(obj, said) if heard else adapter.recognizes(obj)) is not None:
            return adapter, dialect
    dialect_found = None if own else dialect_of(obj, chosen_of(obj, factory, options))
    if dialect_found is not None:
        return user, dialect_found
    raise TargetError(
        f"{target} gives a {type(obj).__name__}, which is no bijection (forward and inverse), no "
        "density (log_prob and sample) and no transform, flow or distribution of a supported "
        f"library{_hint(obj)}"
    )


def _of_library(adapter: Adapter, obj: Any) -> Dialect | None:
    """The convention by a library's adapter; None if it does not know this version of the library, and the
    object is read like user code.
    """
    try:
        return adapter.recognizes(obj)
    except (ImportError, AttributeError):
        return None


def _hint(obj: Any) -> str:
    """The options for methods that may be a map, its inverse and a log-density: naming one alone would
    leave the others unread.
    """
    forward, name = _first_own_method(obj, FORWARDS), _first_own_method(obj, (*DENSE, *NEGATIVE))
    meant = f"minus its log-density{CONSTANT}" if name in NEGATIVE else "its log-density"
    drawn = _first_own_method(obj, DRAWING, optional=True)
    if forward:
        back = _first_own_method(obj, (*INVERSE_METHODS, *LIKELY))
        way = f"&inverse={back}" if back else ", with ?inverse= its way back"
        dense = f"; and if {name}(x) is {meant}, &log_prob={name} besides" if name else ""
        return f"; it has {forward}(x): if that is its map, say ?forward={forward}{way}{dense}"
    if not name:
        there = [f"{one}()" for one in taking_points(obj)]
        if not there:
            return ""
        return (
            f"; of its methods, {', '.join(there[:SHOWN])} take{'s' * (len(there) == 1)} one argument: if one is its map and "
            "another its way back, say ?forward=NAME&inverse=NAME; if one is its log-density, say "
            "?log_prob=NAME&sample=NAME"
        )
    sample = f"&sample={drawn}" if drawn else ""
    return f"; it has {name}(x): if that is {meant}, say ?log_prob={name}{sample}"


def minus_hint(obj: Any) -> str:
    """The remark on a method that may be minus a log-density, for an object in which a map was searched."""
    name = next(
        (one for one in NEGATIVE if defines_method(obj, one) and len(required(obj, one)) <= 2), ""
    )
    return f"; if {name}() is minus its log-density{CONSTANT} say ?log_prob={name}" if name else ""


def unread(obj: Any, dialect: Dialect, options: Mapping[str, str]) -> str:
    """The remark on a map next to a declared log-density that no option names, and on a map next to a
    negative log-density.
    """
    minus = _first_own_method(obj, NEGATIVE)
    if dialect.log_prob is None and minus:
        meant = f"minus its log-density{CONSTANT}"
        sign = "&" if options else "?"
        return f"{minus}() was not tested: if it is {meant} add {sign}log_prob={minus}"
    name = _first_own_method(obj, FORWARDS)
    if "log_prob" not in options or dialect.forward is not None or not name:
        return ""
    back = _first_own_method(obj, (*INVERSE_METHODS, *LIKELY))
    way = f"&inverse={back}" if back else ""
    return f"{name}() was not tested: if that is its map, add &forward={name}{way}"


def taking_points(obj: Any) -> list[str]:
    """The public methods of an object's class that take one argument, in the order of its text."""
    found = [
        name
        for base in type(obj).__mro__
        if base.__module__.partition(".")[0] not in sys.stdlib_module_names
        for name in vars(base)
        if (name == "__call__" or not name.startswith("_"))
        and defines_method(obj, name)
        and len(required(obj, name)) == 1
    ]
    return list(dict.fromkeys(found))


def _first_own_method(obj: Any, names: tuple[str, ...], optional: bool = False) -> str:
    """The first of ``names`` that is a method of the object's own class with one argument; else empty."""
    return next(
        (
            name
            for name in names
            if defines_method(obj, name) and (optional or len(required(obj, name)) == 1)
        ),
        "",
    )


def recognition_reasons(
    obj: Any, adapter: Adapter, dialect: Dialect, facts: Facts
) -> tuple[str, ...]:
    """Why an object was recognized as it is, a sentence each."""
    kind = type(obj)
    if adapter.package:
        base = next(
            base for base in kind.__mro__ if base.__module__.partition(".")[0] == adapter.package
        )
        derived = "is" if base is kind else "derives from"
        return (
            f"its class {derived} {base.__module__}.{base.__qualname__}, which the adapter of "
            f"{adapter.title} knows",
        )
    from flowref.adapters.user.reasons import object_reasons as of_protocol

    return of_protocol(obj, dialect, facts)
