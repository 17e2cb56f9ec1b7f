"""Targets that pyproject.toml declares, which need no test file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flowref.baseline.reading import located, section
from flowref.model import BaselineError, FlowrefError, SpecError, nearest
from flowref.pytest.conformance import Conformance, Listed
from flowref.pytest.pair import Pair
from flowref.pytest.session import Session

NAME = "tool.flowref.target"
KEYS = ("spec", "laws", "event", "profile")
SECTIONS = ("target", "known")


def declared(path: Path) -> list[tuple[Conformance, str]]:
    """The targets that a project file declares, each with its file and line.

    Raises: `FlowrefError` in one sentence, which begins with file and line.
    """
    text = path.read_text(encoding="utf-8")
    settings = section(text, Path(path.name))
    for key in settings:
        if key not in SECTIONS:
            raise BaselineError(
                f"{path.name}: tool.flowref has no {key!r}{nearest(key, SECTIONS)}; expected "
                "[[tool.flowref.target]] or [[tool.flowref.known]]"
            )
    rows = located(settings.get("target", []), NAME, text, Path(path.name))
    return [(_wanted(row, where), where) for row, where in rows]


def pairs(session: Session, path: Path) -> list[Pair]:
    """The pairs of all targets that a project file declares, each pair once. Raises as `declared`."""
    found: dict[str, Pair] = {}
    for wanted, where in declared(path):
        try:
            for pair in session.pairs(wanted, where):
                found.setdefault(pair.id, pair)
        except FlowrefError as error:
            raise SpecError(f"{where}: {error}") from None
    return sorted(found.values(), key=lambda pair: (pair.target.casefold(), pair.target, pair.law))


def _wanted(row: dict[str, Any], where: str) -> Conformance:
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
    if not isinstance(profile, str):
        raise SpecError(f"{where}: profile is {profile!r}; expected text")
    return Conformance((Listed("", spec),), laws, _event(row.get("event", []), where), profile)


def _event(event: Any, where: str) -> str:
    sizes = [event] if isinstance(event, int) else event
    if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes):
        return ",".join(map(str, sizes))
    raise SpecError(
        f"{where}: event is {event!r}; expected a number or a list of them, as [2, 4, 4]"
    )
