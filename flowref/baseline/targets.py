"""Reading the targets that a project declares: ``[[tool.flowref.target]]`` of pyproject.toml.

Every mistake is one sentence with the file and the line. Nothing is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowref.baseline.reading import located, section
from flowref.model import OBJECT, USER, SpecError, Target, nearest
from flowref.reporting.files import read as read_text

NAME = "tool.flowref.target"
KEYS = ("spec", "laws", "event", "profile")
# What the names of profiles mean: of a pull request, and of every night.
PROFILES = {
    "pr": "quick",
    "nightly": "thorough",
    "quick": "quick",
    "standard": "standard",
    "thorough": "thorough",
}


@dataclass(frozen=True)
class Declared:
    """One entry. ``laws``: globs, none for all; ``event``: the shape of one input, as "2,4,4";
    ``profile``: a key of `PROFILES`; what is empty was left out. ``where``: its file and line.
    """

    spec: str
    where: str
    laws: tuple[str, ...] = ()
    event: str = ""
    profile: str = ""


def declared(path: Path) -> tuple[Declared, ...]:
    """The targets that a project file declares, in its order.

    Raises: `FlowrefError` in one sentence, which begins with the file.
    """
    text = read_text(path)
    rows = section(text, Path(path.name)).get("target", [])
    found = located(rows, NAME, text, Path(path.name))
    return tuple(_entry(row, where) for row, where in found)


def with_event(target: Target, event: str) -> Target:
    """A target of a user's with this event shape, unless it gives one."""
    if not event or target.option("event") or target.adapter not in (USER, OBJECT):
        return target
    return target.with_options(event=event)


def _entry(row: dict[str, Any], where: str) -> Declared:
    for key in row:
        if key not in KEYS:
            raise SpecError(
                f"{where}: an entry [[tool.flowref.target]] has no key named {key!r}"
                f"{nearest(key, KEYS)}; its keys are {', '.join(KEYS)}"
            )
    spec, laws = row.get("spec"), row.get("laws", [])
    if not isinstance(spec, str) or not spec.strip():
        given = "is missing" if spec is None else f"is {spec!r}"
        raise SpecError(
            f"{where}: the spec of a target {given}; expected text such as "
            '"mypackage.flows:make", "path/to/file.py:make" or "zuko:NSF"'
        )
    laws = [laws] if isinstance(laws, str) else laws
    if not isinstance(laws, list) or not all(isinstance(law, str) for law in laws):
        raise SpecError(f'{where}: laws is {laws!r}; expected ids or globs, as ["bijection/*"]')
    profile = row.get("profile", "")
    if profile and profile not in PROFILES:
        raise SpecError(
            f"{where}: the profile is {profile!r}{nearest(str(profile), PROFILES)}; expected "
            f"one of {', '.join(PROFILES)}"
        )
    return Declared(spec.strip(), where, tuple(laws), _event(row.get("event", []), where), profile)


def _event(event: Any, where: str) -> str:
    sizes = [event] if isinstance(event, int) else event
    if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes):
        return ",".join(map(str, sizes))
    raise SpecError(
        f"{where}: event is {event!r}; expected a number or a list of them, as [2, 4, 4]"
    )
