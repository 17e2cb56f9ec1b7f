"""The decorator that makes a test function one test for each pair of a target and a law."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

ATTRIBUTE = "__flowref__"
PARAMETER = type(pytest.param(None))
PAIR = "pair"
OPTIONS = ("event_shape", "laws", "profile")
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Listed:
    """One target of a test: its id, or empty; the target itself; the marks of its tests; and its
    options.
    """

    id: str
    what: Any
    marks: tuple[Any, ...] = ()
    laws: Any = ()
    event: str = ""
    profile: str = ""

    @classmethod
    def of(cls, what: Any, name: str = "", **defaults: Any) -> Listed:
        """Return the target of an entry of a list: `pytest.param` gives an id and marks, and a
        mapping after the target gives its options. Raises: `TypeError` for unknown options.
        """
        marks: tuple[Any, ...] = ()
        values: Sequence[Any] = (what,)
        if isinstance(what, PARAMETER):
            name, marks, values = name or str(what.id or ""), tuple(what.marks), what.values
        if len(values) == 1 and _has_options(values[0]):
            values = values[0]
        value, own = (*values, {})[:2]
        if not isinstance(own, Mapping) or set(own) - set(OPTIONS):
            unknown = ", ".join(repr(key) for key in own if key not in OPTIONS)
            raise TypeError(
                f"options of a target are {unknown or repr(own)}; expected some of {', '.join(OPTIONS)}"
            )
        chosen = {**defaults, **own}
        return cls(
            name,
            value,
            marks,
            chosen.get("laws", ()),
            _event_shape_text(chosen.get("event_shape")),
            chosen.get("profile", ""),
        )


@dataclass(frozen=True)
class Conformance:
    """The targets and known failures of a decorated test function, not yet loaded.

    ``targets``: specs, live objects and factories with their ids, empty for the default; ``known``:
    reasons of known failures, by law or by (target id, law).
    """

    targets: tuple[Listed, ...]
    known: Mapping[str | tuple[str, str], str] = field(default_factory=dict)


def conformance(
    targets: Any,
    *,
    laws: str | Any | Iterable[str | Any] = (),
    event_shape: int | Sequence[int] | None = None,
    profile: str = "",
    known: Mapping[str | tuple[str, str], str] | None = None,
) -> Callable[[Test], Test]:
    """Run a test function once for each target and law that applies to it, with that `Pair` as its
    argument ``pair``.

        @flowref.pytest.conformance([my_flow, "zuko:NSF?features=3"], laws="map/*")
        def test_conforms(pair):
            pair.check()

    Arguments: ``targets`` a spec, a live object or a factory without arguments, or several in a
    list, or in a mapping by their names in test ids (``pytest.param`` also gives names and
    marks); ``laws``: ids or globs, all by default; ``event_shape``: of one input, for targets that
    do not declare it; ``profile``: overrides ``--flowref-profile``; ``known``: reasons of known
    failures by law id, or by (target name, law id). They become strict xfails.
    Options of one target follow it: ``(my_flow, {"event_shape": 3, "laws": "density/*"})``.
    Objects are copied, and factories called, when their tests are collected.
    """
    if inspect.isfunction(targets) and PAIR in inspect.signature(targets).parameters:
        name = targets.__name__
        raise TypeError(f"conformance of {name} has no targets; expected @conformance([my_flow])")
    if not isinstance(known or {}, Mapping):
        raise TypeError(f"known is {known!r}; expected the reason by the id of each law")
    one = isinstance(targets, PARAMETER) or _has_options(targets)
    several = isinstance(targets, list | tuple | set | frozenset) and not one
    named = targets.items() if isinstance(targets, Mapping) else ()
    listed = tuple(
        Listed.of(what, str(name), laws=laws, event_shape=event_shape, profile=profile)
        for name, what in named or [("", what) for what in (targets if several else [targets])]
    )
    if not listed or targets == {}:
        raise TypeError("conformance has no targets: the list is empty")
    wanted = Conformance(listed, dict(known or {}))

    def decorate(test: Test) -> Test:
        if not inspect.isfunction(test):
            raise TypeError(f"conformance decorates a test function, and {test!r} is none")
        if ATTRIBUTE in test.__dict__:
            raise TypeError(
                f"{test.__name__} has two conformance decorators; list all targets in one"
            )
        if PAIR not in inspect.signature(test).parameters:
            raise TypeError(
                f"{test.__name__} has no argument named pair; expected def {test.__name__}(pair): "
                "pair.check()"
            )
        setattr(test, ATTRIBUTE, wanted)
        return test

    return decorate


def _has_options(what: Any) -> bool:
    """Whether it is a target with its own options, as (my_flow, {"event_shape": 3})."""
    return isinstance(what, tuple) and len(what) == 2 and isinstance(what[1], Mapping)


def _event_shape_text(shape: int | Sequence[int] | None) -> str:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape or ())
    return ",".join(map(str, sizes))


def object_name(value: Any) -> str:
    """Return the default name of a live object.

    >>> object_name(print), object_name(3)
    ('print', 'int')
    """
    made = value.func if isinstance(value, functools.partial) else value
    return str(getattr(made, "__name__", "") or type(value).__name__)
