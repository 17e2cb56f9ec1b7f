"""What a user chooses where conventions are ambiguous: by an option of the spec, by an attribute of
the factory, or by one of the object. The first of these that says something counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.user.conventions.signatures import attribute
from flowref.model import CONVENTIONS


def chosen_of(obj: Any, factory: Any, options: Mapping[str, str]) -> dict[str, str]:
    """What is chosen, by name."""
    chosen: dict[str, str] = {}
    for name in CONVENTIONS:
        for owner in (obj, factory):
            value = None if owner is None else attribute(owner, name)
            if isinstance(value, str):
                chosen[name] = value
        if name in options:
            chosen[name] = options[name]
    return chosen


def contradictions(obj: Any, factory: Any, options: Mapping[str, str]) -> list[str]:
    """Where two of them choose differently, a sentence each."""
    found = []
    for name in CONVENTIONS:
        told = {
            "the object": attribute(obj, name) if obj is not None else None,
            "its factory": attribute(factory, name) if factory is not None else None,
            "the option": options.get(name),
        }
        said = {who: value for who, value in told.items() if isinstance(value, str)}
        if len(set(said.values())) > 1:
            last = list(said)[-1]
            others = [f"{who} says {value}" for who, value in said.items() if who != last]
            found.append(f"{name}={said[last]} of {last} stands, though {' and '.join(others)}")
    return found
