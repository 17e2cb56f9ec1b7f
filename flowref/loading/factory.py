"""Attributes of a user's factory describe its object and take precedence over the object's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from flowref.adapters.user.conventions.user_choices import contradictions
from flowref.adapters.user.facts import describe
from flowref.model import Facts

# The facts that a factory may state.
STATED = (
    "event_shape", "codomain", "context_shape", "preprocessing", "squeezing", "multi_scale",
)  # fmt: skip


def attributes(factory: Any) -> Any:
    """The attributes of a factory as a namespace; None if it has none."""
    named = {
        name: value for name, value in getattr(factory, "__dict__", {}).items() if name[:2] != "__"
    }
    return SimpleNamespace(**named) if named else None


def said_by(factory: Any) -> Facts | None:
    """The facts stated by a factory; None if it has no attributes."""
    named = attributes(factory)
    return None if named is None else describe(named, None)


def overlaid(facts: Facts, said: Facts | None) -> Facts:
    """Facts with those stated by the factory in place of the object's."""
    if said is None:
        return facts
    found = {name: value for name in STATED if (value := getattr(said, name))}
    if said.declared:
        found |= {"domain": said.domain, "declared": True}
    promises = {name: value for name, value in said.promises.items() if name != "direction"}
    return replace(facts, promises={**facts.promises, **promises}, **found)


def conflicts(facts: Facts, said: Facts | None, obj: Any, factory: Any) -> Iterator[str]:
    """A sentence for each fact that factory and object state differently."""
    yield from contradictions(obj, attributes(factory))
    if said is None:
        return
    own = getattr(obj, "event_shape", None)
    of_object: dict[str, Any] = {name: getattr(facts, name) for name in STATED}
    of_object["event_shape"] = (own,) if isinstance(own, int) else tuple(own or ())
    of_object["domain"] = facts.domain if facts.declared else None
    for name, value in of_object.items():
        new = getattr(said, name) if name != "domain" or said.declared else None
        if value and new and value != new:
            yield f"{name} {text_of(new)} of the factory stands, though the object says {text_of(value)}"


def text_of(value: Any) -> str:
    """A fact as it is typed in an option."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
