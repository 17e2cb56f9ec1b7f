"""Parser of the targets that a project declares in pyproject.toml, ``[[tool.flowref.target]]``, and
of their defaults, ``[tool.flowref]``. Every error is one sentence with file and line. Nothing is
loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowref.baseline.baseline_parser import DEFAULTS, key_location, located, section
from flowref.model import OBJECT, USER, SpecError, Target, nearest
from flowref.reporting.files import read_file_text as read_text

NAME = "tool.flowref.target"
KEYS = ("spec", "laws", "event", "profile")
# Name of a profile -> profile of flowref; pr: pull requests, nightly: nightly runs.
PROFILES = {
    "pr": "quick",
    "nightly": "thorough",
    "quick": "quick",
    "standard": "standard",
    "thorough": "thorough",
}


UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Declared:
    """One entry. ``laws``: globs, all if empty; ``event``: the shape of one input, as "2,4,4";
    ``profile``: a key of `PROFILES`; ``where``: its file and line. Empty: not declared.
    """

    spec: str
    where: str
    laws: tuple[str, ...] = ()
    event: str = ""
    profile: str = ""


@dataclass(frozen=True)
class Defaults:
    """``[tool.flowref]``: defaults of all targets. Globs of ``laws`` and of laws to ``ignore``, a
    ``profile``, the ``timeout`` of a pair in seconds; ``places``: file and line of each. Empty: not
    declared.
    """

    profile: str = ""
    laws: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    timeout: float = 0.0
    places: Mapping[str, str] = field(default_factory=dict)


def declared(path: Path) -> tuple[Declared, ...]:
    """Return the targets that a project file declares, in its order, with the defaults applied.
    Raises: `FlowrefError` in one sentence that begins with the file.
    """
    text = read_text(path)
    rows = section(text, Path(path.name)).get("target", [])
    found = located(rows, NAME, text, Path(path.name))
    common = defaults(path)
    return tuple(_parse_target(row, where, common) for row, where in found)


def defaults(path: Path) -> Defaults:
    """Return the defaults of a project file; empty ones without a file. Raises: `FlowrefError` in
    one sentence that begins with file and line.
    """
    if not path.is_file():
        return Defaults()
    text = read_text(path)
    settings = section(text, Path(path.name))
    places = {key: key_location(key, text, Path(path.name)) for key in DEFAULTS if key in settings}
    profile = _profile(settings.get("profile", ""), places.get("profile", ""))
    return Defaults(
        PROFILES.get(profile, ""),
        _globs(settings.get("laws", []), "laws", places.get("laws", "")),
        _globs(settings.get("ignore", []), "ignore", places.get("ignore", "")),
        _timeout(settings["timeout"], places["timeout"]) if "timeout" in settings else 0.0,
        places,
    )


def seconds_of(value: Any) -> float | None:
    """Return a duration in seconds: 90, "90s", "5m" or "1h"; None if it is invalid.

    >>> seconds_of("5m"), seconds_of(2), seconds_of("soon"), seconds_of(0)
    (300.0, 2.0, None, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value).strip())
    return (float(match[1]) * UNITS[match[2]] or None) if match else None


def with_event(target: Target, event: str) -> Target:
    """Return a user's target with this event shape, unless it has one."""
    if not event or target.option("event") or target.adapter not in (USER, OBJECT):
        return target
    return target.with_options(event=event)


def _parse_target(row: dict[str, Any], where: str, common: Defaults) -> Declared:
    for key in row:
        if key not in KEYS:
            raise SpecError(
                f"{where}: an entry [[tool.flowref.target]] has no key named {key!r}"
                f"{nearest(key, KEYS)}; its keys are {', '.join(KEYS)}"
            )
    spec = row.get("spec")
    if not isinstance(spec, str) or not spec.strip():
        given = "is missing" if spec is None else f"is {spec!r}"
        raise SpecError(
            f"{where}: the spec of a target {given}; expected text such as "
            '"mypackage.flows:make", "path/to/file.py:make" or "zuko:NSF"'
        )
    laws = _globs(row.get("laws", []), "laws", where) or common.laws
    profile = _profile(row.get("profile", ""), where) or common.profile
    return Declared(
        spec.strip(), where, laws, _parse_event_shape(row.get("event", []), where), profile
    )


def _globs(laws: Any, name: str, where: str) -> tuple[str, ...]:
    laws = [laws] if isinstance(laws, str) else laws
    if not isinstance(laws, list) or not all(isinstance(law, str) for law in laws):
        raise SpecError(f'{where}: {name} is {laws!r}; expected ids or globs, as ["map/*"]')
    return tuple(laws)


def _profile(profile: Any, where: str) -> str:
    if profile and profile not in PROFILES:
        raise SpecError(
            f"{where}: the profile is {profile!r}{nearest(str(profile), PROFILES)}; expected "
            f"one of {', '.join(PROFILES)}"
        )
    return str(profile)


def _timeout(value: Any, where: str) -> float:
    number = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not number or (seconds := seconds_of(value)) is None:
        raise SpecError(f'{where}: timeout is {value!r}; expected seconds, or a text such as "5m"')
    return seconds


def _parse_event_shape(event: Any, where: str) -> str:
    sizes = [event] if isinstance(event, int) else event
    if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes):
        return ",".join(map(str, sizes))
    raise SpecError(
        f"{where}: event is {event!r}; expected a number or a list of them, as [2, 4, 4]"
    )
