"""Parser of known failures: ``[[tool.flowref.known]]`` of pyproject.toml, and the baseline file.
Every error is one sentence with file and line.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowref import registry
from flowref.baseline.entry import OUTCOMES, Baseline, Entry
from flowref.model import BaselineError, FlowrefError, Verdict, nearest
from flowref.reporting.files import read_file_text as read_text
from flowref.reporting.verdict_json import verdict_from_json

PROJECT, FILE = "pyproject.toml", "flowref-baseline.toml"
# Keys of the table tool.flowref: defaults of all targets, and two lists of tables.
DEFAULTS = ("profile", "laws", "ignore", "timeout")
SECTIONS = (*DEFAULTS, "target", "known")
KEYS = ("target", "law", "reason", "issue", "case", "max-margin", "expires", "outcome")
VERSION = 1


def load_baseline(
    file: Path | None = None, folder: Path = Path(), *, lenient: bool = False
) -> Baseline:
    """Return the known failures of a folder. ``file``: the baseline file, if it has another name;
    ``lenient``: a missing case is no error, as before it is written.

    Raises: `BaselineError` in one sentence.
    """
    project, path = folder / PROJECT, file or folder / FILE
    if file is not None and not file.is_file() and not lenient:
        raise BaselineError(
            f"{file} cannot be read: there is no such file; `flowref baseline update` writes one"
        )
    declared = _recorded_known_failures(project) if project.is_file() else ()
    recorded, cases = _recorded(path) if path.is_file() else ((), {})
    baseline = Baseline(declared, recorded, cases)
    _require_consistent(baseline, path, lenient)
    return baseline


def _recorded_known_failures(path: Path) -> tuple[Entry, ...]:
    text = read_text(path)
    settings = section(text, path)
    return _parse_known_failures(settings.get("known", []), "tool.flowref.known", text, path)


def section(text: str, path: Path) -> dict[str, Any]:
    """Return the table ``tool.flowref`` of a project file, given its text; empty if there is none.
    Raises: `BaselineError`, also for unknown keys.
    """
    tools = _toml(text, path).get("tool", {})
    settings = tools.get("flowref", {}) if isinstance(tools, dict) else {}
    if not isinstance(settings, dict):
        raise BaselineError(f"{path}: tool.flowref is {settings!r}; expected a table")
    for key in settings:
        if key not in SECTIONS:
            raise BaselineError(
                f"{key_location(key, text, path)}: tool.flowref has no {key!r}{nearest(key, SECTIONS)}; "
                f"expected {', '.join(DEFAULTS)}, [[tool.flowref.target]] or [[tool.flowref.known]]"
            )
    return settings


def key_location(key: str, text: str, path: Path) -> str:
    """Return the file, with the line of a key of ``tool.flowref`` if it is found."""
    name = re.escape(key)
    lines = _lines(text, rf"(\[+\s*tool\.flowref\.{name}\b|{name}\s*=)")
    begins = (_lines(text, r"\[\s*tool\.flowref\s*\]") or [0])[0]
    below = [line for line in lines if line > begins]
    return f"{path}:{below[0]}" if below else str(path)


def _recorded(path: Path) -> tuple[tuple[Entry, ...], dict[str, Verdict]]:
    text = read_text(path)
    data = _toml(text, path)
    if unknown := sorted(set(data) - {"version", "known", "case"}):
        raise BaselineError(
            f"{path} has the unknown key {unknown[0]!r}"
            f"{nearest(unknown[0], ['version', 'known', 'case'])}; expected version, [[known]] and [case]"
        )
    if data.get("version") != VERSION:
        raise BaselineError(
            f"{path} has version {data.get('version')!r}, and this flowref reads version {VERSION}; "
            "write it anew with `flowref baseline update`"
        )
    cases = data.get("case", {})
    if not isinstance(cases, dict):
        raise BaselineError(f"{path}: case is {cases!r}; expected a table of cases by name")
    read = {name: _case(name, case, path, text) for name, case in cases.items()}
    return _parse_known_failures(data.get("known", []), "known", text, path), read


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BaselineError(f"{path} is not TOML: {error}") from None


def _parse_known_failures(rows: Any, name: str, text: str, path: Path) -> tuple[Entry, ...]:
    return tuple(_parse_known_failure(row, place) for row, place in located(rows, name, text, path))


def located(rows: Any, name: str, text: str, path: Path) -> list[tuple[dict[str, Any], str]]:
    """Return the tables of a list in a file, each with its file and line. Raises: `BaselineError`
    if it is no list of tables.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BaselineError(f"{path}: {name} is no list of tables; expected [[{name}]]")
    lines = _lines(text, rf"\[\[\s*{re.escape(name)}\s*\]\]")
    places = (
        [f"{path}:{line}" for line in lines]
        if len(lines) == len(rows)
        else [f"{path}, entry {number}" for number in range(1, len(rows) + 1)]
    )
    return list(zip(rows, places, strict=True))


def _lines(text: str, pattern: str) -> list[int]:
    begins = re.compile(rf"\s*{pattern}")
    return [number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)]


def _parse_known_failure(row: dict[str, Any], where: str) -> Entry:
    if unknown := sorted(set(row) - set(KEYS)):
        raise BaselineError(
            f"{where}: a known failure has no key named {unknown[0]!r}"
            f"{nearest(unknown[0], KEYS)}; its keys are {', '.join(KEYS)}"
        )
    texts = {key: row.get(key, "") for key in ("target", "law", "reason", "issue", "case")}
    for key, value in texts.items():
        if not isinstance(value, str) or (not value.strip() and key in KEYS[:3]):
            given = f"is {value!r}" if key in row else "is missing"
            raise BaselineError(f"{where}: the {key} of a known failure {given}; expected text")
    margin, expires = row.get("max-margin"), row.get("expires")
    outcome = row.get("outcome", OUTCOMES[0])
    if margin is not None and not _positive(margin):
        raise BaselineError(f"{where}: max-margin is {margin!r}; expected a positive number")
    if expires is not None and type(expires) is not datetime.date:
        raise BaselineError(
            f"{where}: expires is {str(expires)!r}; expected a date without quotes, as 2027-03-01"
        )
    if outcome not in OUTCOMES:
        raise BaselineError(
            f"{where}: outcome is {outcome!r}; expected one of {', '.join(OUTCOMES)}"
        )
    try:
        target, law = normal(texts["target"]), registry.find_law(texts["law"]).id
    except FlowrefError as error:
        raise BaselineError(f"{where}: {error}") from None
    return Entry(
        target,
        law,
        texts["reason"],
        texts["issue"],
        texts["case"],
        None if margin is None else float(margin),
        expires,
        outcome,
        where,
    )


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and not math.isnan(value) and value > 0


def normal(target: str) -> str:
    """Return the target of an entry in canonical form; the name of a library stands for all its
    targets.

    >>> normal("zuko:NSF?b=2&a=1")
    'zuko:NSF?a=1&b=2'
    """
    names = {name.casefold(): name for name in registry.adapters()}
    if target.casefold() in names:
        return f"{names[target.casefold()]}:*"
    return str(registry.parse_target(target))


def _case(name: str, text: Any, path: Path, whole: str) -> Verdict:
    lines = _lines(whole, rf"\"?{re.escape(name)}\"?\s*=")
    where = f"{path}:{lines[0]}" if lines else str(path)
    wanted = "leave cases as `flowref baseline update` wrote them, or write them anew"
    try:
        verdict = verdict_from_json(json.loads(text))
        law = registry.find_law(verdict.law).id
    except (FlowrefError, ValueError, TypeError) as error:
        raise BaselineError(
            f"{where}: the case {name} cannot be read ({error}); {wanted}"
        ) from None
    if verdict.id != name.partition("-")[0]:
        raise BaselineError(
            f"{where}: the case {name} holds {verdict.id}, of {verdict.law} in {verdict.target}; "
            f"{wanted}"
        )
    return replace(verdict, law=law)


def _require_consistent(baseline: Baseline, path: Path, lenient: bool) -> None:
    """Check that every entry has its own case, and that no pair has two entries."""
    seen: dict[tuple[str, str], Entry] = {}
    for entry in baseline.entries:
        other = seen.setdefault((entry.target, entry.law), entry)
        if other is not entry:
            raise BaselineError(
                f"{entry.where}: {entry.law} in {entry.target} is known from {other.where} already; "
                "keep one of the two"
            )
        if not entry.case:
            continue
        case = baseline.pinned(entry)
        if case is None and not lenient:
            raise BaselineError(
                f"{entry.where}: there is no case {entry.case} in {path}"
                f"{nearest(entry.case, baseline.cases)}; `flowref audit --no-baseline` and then "
                "`flowref baseline update` write it"
            )
        if case is not None and not (case.law == entry.law and entry.covers(case.target)):
            raise BaselineError(
                f"{entry.where}: its case {entry.case} is of {case.law} in {case.target}, and the "
                f"entry is about {entry.law} in {entry.target}"
            )
