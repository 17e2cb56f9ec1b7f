"""Offers of other distributions through entry points. A failing offer is recorded as a problem, and the
rest goes on.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from flowref.model import Problem, one_line


@dataclass(frozen=True)
class Offer:
    """The modules in an entry-point group, sorted by entry point; ``problems``: for those left out."""

    modules: tuple[ModuleType, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Named:
    """Values by name, sorted; of two with one name the first is kept, and ``problems`` report the other."""

    entries: dict[str, Any]
    problems: tuple[Problem, ...] = ()


@functools.cache
def offered(group: str) -> Offer:
    """The modules of an entry-point group."""
    modules, problems = [], []
    for entry in sorted(importlib.metadata.entry_points(group=group), key=lambda entry: entry.name):
        try:
            module = entry.load()
        except (Exception, SystemExit) as error:
            trouble = f"whose import raised {one_line(error, 200)}"
        else:
            if isinstance(module, ModuleType):
                modules.append(module)
                continue
            trouble = f"which is no module but of type {type(module).__name__}"
        problems.append(
            Problem(
                f"{group}:{entry.name}",
                f"the entry point {entry.name!r} of the group {group!r} names {entry.value}, "
                f"{trouble}; fix or uninstall the distribution that offers it",
            )
        )
    return Offer(tuple(modules), tuple(problems))


def values_by_id(
    modules: Iterable[ModuleType], kind: type, noun: str, attribute: str = "id"
) -> Named:
    """The values of a type that modules define, by ``attribute``; ``noun``: their kind, in the message
    about duplicates.
    """
    entries: dict[str, Any] = {}
    homes: dict[str, str] = {}
    problems = []
    for module in modules:
        for value in vars(module).values():
            if not isinstance(value, kind):
                continue
            name = getattr(value, attribute)
            home = homes.setdefault(name, module.__name__)
            if entries.setdefault(name, value) is not value:
                problems.append(
                    Problem(
                        f"{noun} {name} of {module.__name__}",
                        f"there are two {noun}s {name!r}, in {home} and in {module.__name__}; the "
                        "second is left out until one of them is renamed",
                    )
                )
    order = sorted(entries, key=lambda name: (name.casefold(), name))
    return Named({name: entries[name] for name in order}, tuple(problems))
