"""Choices for ambiguous conventions: by an option of the spec, an attribute of the factory, or one of the
object, in this order; if none names a call, names of methods decide (`roles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.user.conventions.method_names import roles_of
from flowref.adapters.user.conventions.signatures import attribute
from flowref.model import CONVENTIONS, SpecError

# Options that name calls.
ROLES = {"forward", "inverse", "log_prob"}


def chosen_of(obj: Any, factory: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The choices by name; if no call is named, those implied by names of methods."""
    chosen = choices(obj, factory, options)
    return chosen if chosen.keys() & ROLES else {**chosen, **roles_of(obj)}


def contradictions(obj: Any, factory: Any) -> list[str]:
    """A sentence for each choice of a factory that differs from its object's."""
    of_object, of_factory = choices(obj, None, {}), choices(None, factory, {})
    return [
        f"{name}={value} of its factory stands, though the object says {of_object[name]}"
        for name, value in of_factory.items()
        if of_object.get(name, value) != value
    ]


def choices(obj: Any, factory: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The stated choices by name."""
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
    """The direction from data to latents; forward by default. Raises `SpecError`."""
    call = chosen.get("normalizing", "forward")
    if call not in ("forward", "inverse"):
        raise SpecError(f"normalizing was given as {call!r}; expected forward or inverse")
    return call
