"""What a user chooses where conventions are ambiguous: by an option of the spec, by an attribute of
the factory, or by one of the object. The first of these that says something counts; where none names a
call, the names of methods do (`roles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.user.conventions.method_names import roles_of
from flowref.adapters.user.conventions.signatures import attribute
from flowref.model import CONVENTIONS, SpecError

# Who names one of these says which calls are meant.
ROLES = {"forward", "inverse", "log_prob"}


def chosen_of(obj: Any, factory: Any, options: Mapping[str, str]) -> dict[str, str]:
    """What is chosen, by name; where nobody names a call, what the names of methods say."""
    chosen = choices(obj, factory, options)
    return chosen if chosen.keys() & ROLES else {**chosen, **roles_of(obj)}


def contradictions(obj: Any, factory: Any) -> list[str]:
    """Where a factory chooses otherwise than its object, a sentence each."""
    of_object, of_factory = choices(obj, None, {}), choices(None, factory, {})
    return [
        f"{name}={value} of its factory stands, though the object says {of_object[name]}"
        for name, value in of_factory.items()
        if of_object.get(name, value) != value
    ]


def choices(obj: Any, factory: Any, options: Mapping[str, str]) -> dict[str, str]:
    """What is chosen by those who say it, by name."""
    chosen: dict[str, str] = {}
    for name in CONVENTIONS:
        for owner in (obj, factory):
            value = None if owner is None else attribute(owner, name)
            if isinstance(value, str):
                chosen[name] = value
        if name in options:
            chosen[name] = options[name]
    return chosen


def normalizing_of(chosen: Mapping[str, str]) -> str:
    """Which call maps data to latents, as is chosen: forward where nobody says. Raises: `SpecError` for what is neither."""
    call = chosen.get("normalizing", "forward")
    if call not in ("forward", "inverse"):
        raise SpecError(f"normalizing was given as {call!r}; expected forward or inverse")
    return call
