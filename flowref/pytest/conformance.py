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
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Listed:
    """One target of a test: its id, or none, what it is, and the marks of its tests."""

    id: str
    what: Any
    marks: tuple[Any, ...] = ()

    @classmethod
    def of(cls, what: Any, name: str = "") -> Listed:
        """A target as somebody lists it; `pytest.param` gives an id and marks."""
        if not isinstance(what, PARAMETER):
            return cls(name, what)
        (value,) = what.values
        return cls(name or str(what.id or ""), value, tuple(what.marks))


@dataclass(frozen=True)
class Conformance:
    """What a test function is to be run with; nothing of it is loaded yet.

    ``targets``: specs, live objects and factories with their ids, empty for one that is named after
    itself, and marks; ``known``: reasons of known failures, by law, or by id of the target and law.
    """

    targets: tuple[Listed, ...]
    laws: Any = ()
    event: str = ""
    profile: str = ""
    known: Mapping[str | tuple[str, str], str] = field(default_factory=dict)


def conformance(
    targets: Any,
    *,
    laws: str | Any | Iterable[str | Any] = (),
    event_shape: int | Sequence[int] | None = None,
    profile: str = "",
    known: Mapping[str | tuple[str, str], str] | None = None,
) -> Callable[[Test], Test]:
    """Run a test function once for each target and law, with that `Pair` as its argument ``pair``.

        @flowref.pytest.conformance([my_flow, "zuko:NSF?features=3"], laws="bijection/*")
        def test_conforms(pair):
            pair.check()

    Arguments: ``targets`` a spec, a live object or a factory without arguments, or several in a
    list, or by the names that they have in ids of tests (``pytest.param`` gives names and marks,
    too); ``laws`` ids or globs, all by default;
    ``event_shape`` of one input, for targets that do not tell; ``profile`` in place of
    ``--flowref-profile``; ``known`` failures: the reason by the id of a law, or by the name of a
    target and the id of a law. They become strict xfails.
    Objects are copied when the first of their tests runs.
    """
    if inspect.isfunction(targets) and PAIR in inspect.signature(targets).parameters:
        name = targets.__name__
        raise TypeError(f"conformance of {name} has no targets; expected @conformance([my_flow])")
    if not isinstance(known or {}, Mapping):
        raise TypeError(f"known is {known!r}; expected the reason by the id of each law")
    if isinstance(targets, Mapping):
        listed = [Listed.of(target, str(name)) for name, target in targets.items()]
    elif isinstance(targets, list | tuple | set | frozenset) and not isinstance(targets, PARAMETER):
        listed = [Listed.of(target) for target in targets]
    else:
        listed = [Listed.of(targets)]
    if not listed:
        raise TypeError("conformance has no targets: the list is empty")
    sizes = (event_shape,) if isinstance(event_shape, int) else tuple(event_shape or ())
    wanted = Conformance(tuple(listed), laws, ",".join(map(str, sizes)), profile, dict(known or {}))

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


def is_factory(value: Any) -> bool:
    """Whether a live object makes what is meant: a class, or a function that can be called without
    arguments.
    """
    if isinstance(value, type):
        return True
    made = inspect.isroutine(value) or isinstance(value, functools.partial)
    return made and not _required(value)


def wants(value: Any) -> list[str]:
    """The arguments that a class must be given, or a function that wants several; a function of one
    may be a map itself.
    """
    made = isinstance(value, type) or inspect.isroutine(value)
    names = _required(value) if made else []
    return names if isinstance(value, type) or len(names) > 1 else []


def _required(value: Any) -> list[str]:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]


def name_of(value: Any) -> str:
    """What a live object is called where nobody names it.

    >>> name_of(print), name_of(3)
    ('print', 'int')
    """
    made = value.func if isinstance(value, functools.partial) else value
    return str(getattr(made, "__name__", "") or type(value).__name__)
