"""Third stage: what kind of object it is, which calls it offers, and what its attributes tell."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowref import registry
from flowref.adapters.user.adapter import dialect_of
from flowref.adapters.user.conventions.names import (
    DENSE,
    DRAWING,
    FORWARDS,
    LIKELY,
    METHODS,
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

# Methods that a refusal names, at most, and what is said of those that may be meant for training alone.
SHOWN = 4
CONSTANT = ", constants and all,"


@dataclass(frozen=True)
class Recognition:
    """What an object was taken for.

    ``adapter``: whose rules apply; ``why``: which class, attributes and methods decided, a sentence
    each, for the reader; ``conventions``, ``hints`` and ``conflicts`` (of an object with its
    factory): as `Recognized` has them.
    """

    adapter: Adapter
    dialect: Dialect
    facts: Facts
    why: tuple[str, ...]
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def recognize(instance: Instance, event: Shape | None) -> Recognition:
    """What an instance is taken for; ``event``: the event shape, where the user states it.

    Raises `TargetError` in one sentence where it is nothing that can be audited.
    """
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
        if adapter.package:  # which knows its calls
            for name, text in called.items():
                if text.isidentifier() and text != NOTHING:
                    demand(obj, name, text)
        event = event or event_option(options)
        own = adapter.describe(obj, event or (said.event_shape if said else None) or None)
        facts = overlaid(own, said)
        read = (*declared_words(declared), *recognition_reasons(obj, adapter, dialect, facts))
        told = conflicts(own, said, obj, instance.source.factory)
        return Recognition(adapter, dialect, facts, read, conflicts=tuple(told))


def adapter_of(
    obj: Any,
    target: Target | str,
    factory: Any = None,
    backend: str = "",
    options: Mapping[str, str] | None = None,
    home: str | None = None,
) -> tuple[Adapter, Dialect]:
    """The adapter and dialect of a live object: that of the library its class comes from, else that
    of code in its framework, else the protocol of user code, as far as its conventions show. ``options``: what is said of
    it; ``home``: the package that declares its calls, None where nobody does: a declaration comes before what is known of
    another package.
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
    spoken = None if own else dialect_of(obj, chosen_of(obj, factory, options))
    if spoken is not None:
        return user, spoken
    raise TargetError(
        f"{target} gives a {type(obj).__name__}, which is no bijection (forward and inverse), no "
        "density (log_prob and sample) and no transform, flow or distribution of a supported "
        f"library{_hint(obj)}"
    )


def _of_library(adapter: Adapter, obj: Any) -> Dialect | None:
    """How a library's adapter takes an object, if it knows this version of the library: objects of
    others are heard like code of users.
    """
    try:
        return adapter.recognizes(obj)
    except (ImportError, AttributeError):
        return None


def _hint(obj: Any) -> str:
    """The methods that may be a map and its way back, and that which may be a log-density, with the options
    that take them: who names one of them alone has the other unread.
    """
    forward, name = _first_own_method(obj, FORWARDS), _first_own_method(obj, (*DENSE, *NEGATIVE))
    meant = f"minus its log-density{CONSTANT}" if name in NEGATIVE else "its log-density"
    drawn = _first_own_method(obj, DRAWING, optional=True)
    if forward:
        back = _first_own_method(obj, (*METHODS, *LIKELY))
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
    """What to say of a method that is minus a log-density, perhaps with a context, where what is a map was looked for."""
    name = next(
        (one for one in NEGATIVE if defines_method(obj, one) and len(required(obj, one)) <= 2), ""
    )
    return f"; if {name}() is minus its log-density{CONSTANT} say ?log_prob={name}" if name else ""


def unread(obj: Any, dialect: Dialect, options: Mapping[str, str]) -> str:
    """What is said of an object whose log-density was named, beside a map that nobody named; and of a map beside minus
    its log-density.
    """
    minus = _first_own_method(obj, NEGATIVE)
    if dialect.log_prob is None and minus:
        meant = f"minus its log-density{CONSTANT}"
        sign = "&" if options else "?"
        return f"{minus}() was not looked at: if it is {meant} add {sign}log_prob={minus}"
    name = _first_own_method(obj, FORWARDS)
    if "log_prob" not in options or dialect.forward is not None or not name:
        return ""
    back = _first_own_method(obj, (*METHODS, *LIKELY))
    way = f"&inverse={back}" if back else ""
    return f"{name}() was not looked at: if that is its map, add &forward={name}{way}"


def taking_points(obj: Any) -> list[str]:
    """The public methods of an object's own that take one argument, as they stand in its class."""
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
    """The first of these names that is a method of the object's own, of one argument."""
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
    """Why an object was taken for what it is, a sentence each."""
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
