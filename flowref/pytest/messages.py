"""What a test sends along with its report, as plain values, and back: it may have run elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from flowref.model import KnownFailure, Recognized, Standing, Verdict
from flowref.pytest.pair import Pair
from flowref.reporting.contents import LawNote
from flowref.reporting.encoding import (
    recognized_from_json,
    recognized_to_json,
    verdict_from_json,
    verdict_to_json,
)

QUIET, TEXT = "flowref_quiet", "flowref_text"


def of(pair: Pair) -> dict[str, Any]:
    """The attributes of a report that tell what came of a pair."""
    attributes: dict[str, Any] = {QUIET: pair.quiet}
    if pair.judged is not None:
        known, recognized = pair.judged.known, pair.session.recognized(pair)
        data = {
            "verdict": verdict_to_json(pair.judged.verdict),
            "profile": pair.profile or pair.session.profile,
            "known": None if known is None else asdict(known),
            "recognized": None if recognized is None else recognized_to_json(recognized),
        }
        law = pair.own_law
        if law is not None:
            note = LawNote(law.id, law.version, law.statement, law.force, law.tolerance, law.source)
            data["note"] = asdict(note)
        attributes[TEXT] = json.dumps(data)
    elif pair.problem:
        attributes[TEXT] = json.dumps({"spec": pair.target, "problem": pair.problem})
    return attributes


class Read:
    """What many messages told."""

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
        """The verdicts in groups, sorted by target."""
        groups: dict[str, list[Verdict]] = {}
        for (target, _), verdict in sorted(self.verdicts.items(), key=lambda item: item[0]):
            groups.setdefault(target, []).append(verdict)
        return groups

    def _read(self, data: dict[str, Any]) -> None:
        if "problem" in data:
            self.problems.setdefault(data["spec"], data["problem"])
            return
        verdict = verdict_from_json(data["verdict"])
        pair = verdict.target, verdict.law
        self.verdicts[pair] = verdict
        self.profiles.add(data["profile"])
        if "note" in data:
            self.notes[verdict.law] = LawNote(**data["note"])
        if data["known"] is not None:
            known = {**data["known"], "standing": Standing(data["known"]["standing"])}
            self.known[pair] = KnownFailure(**known)
        if data["recognized"] is not None:
            self.recognized[verdict.target] = recognized_from_json(data["recognized"])
