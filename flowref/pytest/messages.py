"""Results sent with the report of a test, as plain values: the test may run in another process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from flowref.model import KnownFailure, Recognized, Standing, Verdict
from flowref.pytest.pair import Load
from flowref.reporting.contents import LawNote
from flowref.reporting.verdict_json import (
    recognized_from_json,
    recognized_to_json,
    verdict_from_json,
    verdict_to_json,
)

QUIET, TEXT = "flowref_quiet", "flowref_text"


def of(test: Load) -> dict[str, Any]:
    """Return the attributes of a report with the result of a test. The first report of a target in
    this process also contains what it was recognized as and the laws that do not apply.
    """
    attributes: dict[str, Any] = {QUIET: test.quiet}
    if test.problem:
        attributes[TEXT] = json.dumps({"spec": test.target, "problem": test.problem})
        return attributes
    judged, recognized = test.judged, test.session.recognized(test.candidate)
    if recognized is not None and not test.session.first(test.candidate):
        recognized = None
    verdicts = [] if judged is None else [judged.verdict]
    known = None if judged is None else judged.known
    if recognized is not None:
        verdicts += test.candidate.silent
    if not verdicts and recognized is None:
        return attributes
    data = {
        "target": str(test.candidate.found),
        "verdicts": [verdict_to_json(verdict) for verdict in verdicts],
        "profile": test.candidate.profile or test.session.profile,
        "known": None if known is None else asdict(known),
        "recognized": None if recognized is None else recognized_to_json(recognized),
    }
    law = test.own_law
    if law is not None:
        note = LawNote(law.id, law.version, law.statement, law.force, law.tolerance, law.source)
        data["note"] = asdict(note)
    attributes[TEXT] = json.dumps(data)
    return attributes


class Read:
    """The results read from many reports."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.known: dict[tuple[str, str], KnownFailure] = {}
        self.recognized: dict[str, Recognized] = {}
        self.problems: dict[str, str] = {}
        self.notes: dict[str, LawNote] = {}
        self.profiles: set[str] = set()
        for text in texts:
            self._read(json.loads(text))

    def by_target(self) -> dict[str, list[Verdict]]:
        """The verdicts grouped and sorted by target."""
        groups: dict[str, list[Verdict]] = {}
        for (target, _), verdict in sorted(self.verdicts.items(), key=lambda item: item[0]):
            groups.setdefault(target, []).append(verdict)
        return groups

    def _read(self, data: dict[str, Any]) -> None:
        if "problem" in data:
            self.problems.setdefault(data["spec"], data["problem"])
            return
        target = data["target"]
        verdicts = [verdict_from_json(one) for one in data["verdicts"]]
        self.verdicts |= {(verdict.target, verdict.law): verdict for verdict in verdicts}
        self.profiles.add(data["profile"])
        if "note" in data:
            note = LawNote(**data["note"])
            self.notes[note.id] = note
        if data["known"] is not None:
            known = {**data["known"], "standing": Standing(data["known"]["standing"])}
            self.known[target, verdicts[0].law] = KnownFailure(**known)
        if data["recognized"] is not None:
            self.recognized[target] = recognized_from_json(data["recognized"])
