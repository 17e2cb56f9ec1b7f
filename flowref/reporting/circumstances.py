"""Differences between two audits that may explain changes, and are none themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.report import Report


@dataclass(frozen=True)
class Difference:
    """A circumstance that differs between two audits."""

    name: str
    old: str
    new: str


def report_differences(old: Report, new: Report) -> tuple[Difference, ...]:
    """Return the differences in versions, platform, profile, seed and laws, and whether a report is
    interrupted or brief.
    """
    return (
        *_environment_differences(old.environment, new.environment),
        *_notes(old.laws, new.laws),
        *_interrupted(old, new),
        *_report_length_difference(old, new),
    )


def _environment_differences(old: Environment, new: Environment) -> list[Difference]:
    pairs = [("flowref", old.flowref, new.flowref), ("python", old.python, new.python)]
    before, after = dict(old.versions), dict(new.versions)
    pairs += [
        (name, before.get(name, "absent"), after.get(name, "absent"))
        for name in sorted(before.keys() | after.keys())
        if name != "flowref"
    ]
    pairs += [
        ("platform", old.platform, new.platform),
        ("profile", old.profile, new.profile),
        ("seed", str(old.seed), str(new.seed)),
    ]
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def _notes(old: Sequence[LawNote], new: Sequence[LawNote]) -> list[Difference]:
    before = {note.id: note for note in old}
    changed = []
    for note in sorted(new, key=lambda note: note.id):
        was = before.get(note.id, note)
        for name in ("version", "force", "tolerance"):
            one, other = str(getattr(was, name)), str(getattr(note, name))
            if one != other:
                changed.append(Difference(f"{name} of {note.id}", one, other))
    return changed


def _interrupted(old: Report, new: Report) -> list[Difference]:
    words = {True: "whole", False: "interrupted"}
    if old.complete and new.complete:
        return []
    return [Difference("audit", words[old.complete], words[new.complete])]


def _report_length_difference(old: Report, new: Report) -> list[Difference]:
    words = ["full" if report.omitted is None else "brief" for report in (old, new)]
    return [Difference("report", *words)] if "brief" in words else []
