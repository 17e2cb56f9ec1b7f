"""The audit that a project declares: the targets of its pyproject.toml, each with its own laws."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from flowref import registry
from flowref.auditing.selection import select_laws, with_defaults
from flowref.baseline.baseline_parser import PROJECT
from flowref.baseline.targets import PROFILES, Declared, Defaults, declared, defaults, with_event
from flowref.model import FlowrefError, Law, SpecError, Target


@dataclass(frozen=True)
class AuditSelection:
    """Targets, the union of their laws, the law ids of each target, and the profile."""

    targets: tuple[Target, ...]
    laws: tuple[Law, ...]
    wanted: Mapping[str, Collection[str]]
    profile: str


def declared_audit(
    folder: Path,
    laws: Collection[str] = (),
    profile: str = "",
    options: Mapping[str, str] | None = None,
) -> AuditSelection | None:
    """Return the audit that the project in a folder declares; None if it declares no target.
    ``laws`` and ``profile`` override what is declared, ``options`` are defaults.

    Raises: `FlowrefError` in one sentence that begins with file and line.
    """
    path = folder / PROJECT
    rows = declared(path) if path.is_file() else ()
    if not rows:
        return None
    chosen = select_laws(laws) if laws else ()
    found = [
        (target, own)
        for row in rows
        for own in (chosen or _declared_laws(row),)
        for target in _declared_targets(row)
    ]
    targets = with_defaults([target for target, _ in found], options or {})
    every: dict[str, Law] = {}
    wanted: dict[str, set[str]] = {}
    for target, (_, own) in zip(targets, found, strict=True):
        every |= {law.id: law for law in own}
        wanted.setdefault(str(target), set()).update(law.id for law in own)
    return AuditSelection(
        tuple(dict.fromkeys(targets)),
        tuple(every[name] for name in sorted(every)),
        wanted,
        profile or _profile(rows),
    )


def common(folder: Path) -> Defaults:
    """Return the project's defaults of all targets. Raises: `FlowrefError` in one sentence that
    begins with file and line.
    """
    said = defaults(folder / PROJECT)
    for name, globs in (("laws", said.laws), ("ignore", said.ignore)):
        if not globs:
            continue
        try:
            select_laws(globs)
        except FlowrefError as error:
            raise SpecError(f"{said.places[name]}: {error}") from None
    return said


def _declared_targets(row: Declared) -> list[Target]:
    try:
        return [with_event(target, row.event) for target in registry.expand(row.spec)]
    except FlowrefError as error:
        raise SpecError(f"{row.where}: {error}") from None


def _declared_laws(row: Declared) -> tuple[Law, ...]:
    try:
        return select_laws(row.laws)
    except FlowrefError as error:
        raise SpecError(f"{row.where}: {error}") from None


def _profile(rows: Collection[Declared]) -> str:
    """The common profile of all entries. Raises: `SpecError` if they differ."""
    first, *others = ((row.profile or "standard", row.where) for row in rows)
    for profile, where in others:
        if PROFILES[profile] != PROFILES[first[0]]:
            raise SpecError(
                f"{where}: the profile is {profile}, and at {first[1]} it is {first[0]}; an audit "
                "has one: give --profile"
            )
    return PROFILES[first[0]]
