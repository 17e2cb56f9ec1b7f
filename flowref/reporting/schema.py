"""The JSON of a report: ASCII, one verdict per line, floats in hexadecimal.

Decimals of the hexadecimal floats are for readers and ignored when reading; report.schema.json
documents each key. Schema 2 is a full report, schema 3 a brief one. In full, laws that do not
apply, most pairs of an audit, share a line per target and reason. In brief, a target has one line
with a letter per law, in the order of the laws: ``h`` holds, ``-`` does not apply, ``w`` blocked,
``.`` listed among the verdicts or absent. ``known`` is written if known failures were compared,
``expenses`` if a worker measured, ``shard`` for a part of an audit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flowref.model import (
    KnownFailure,
    NotJudged,
    Problem,
    Recognized,
    ReportError,
    Standing,
    Status,
    Verdict,
    one_line,
)
from flowref.reporting.contents import Environment, Expense, LawNote, Omitted, Shard
from flowref.reporting.severity import kind
from flowref.reporting.verdict_json import (
    BLOCKED,
    DECIMAL,
    ID,
    SEVERITY,
    hexed,
    readable,
    recognized_from_json,
    recognized_to_json,
    unhexed,
    verdict_from_json,
    verdict_to_json,
)

FULL, BRIEF = 2, 3
# (status, whether the law is blocked) -> letter.
LETTERS = {
    (Status.HOLDS, False): "h",
    (Status.NOT_APPLICABLE, False): "-",
    (Status.NOT_APPLICABLE, True): "w",
}
QUIET = (Status.HOLDS, Status.NOT_APPLICABLE)
ELSEWHERE = "."
SPEAKS = NotJudged("")


def report_json(fields: Mapping[str, Any]) -> str:
    """Return the JSON text of a report, given its fields by name."""
    omitted, environment = fields["omitted"], fields["environment"]
    notes = {note.id: note for note in fields["laws"]}
    head: list[tuple[str, Any]] = [
        ("flowref-report", FULL if omitted is None else BRIEF),
        ("complete", fields["complete"]),
        ("environment", readable({**asdict(environment), "seconds": hexed(environment.seconds)})),
    ]
    rows: list[tuple[str, Iterable[Any]]] = [
        ("laws", map(asdict, fields["laws"])),
        ("targets", fields["targets"]),
        ("problems", map(asdict, fields["problems"])),
        ("recognized", _recognized_rows(fields["recognized"])),
    ]
    if fields["shard"] is not None:
        head.append(("shard", asdict(fields["shard"])))
    if fields["known"]:
        rows.append(("known", map(asdict, fields["known"])))
    if fields["expenses"]:
        rows.append(("expenses", _expense_rows(fields["expenses"])))
    if omitted is None:
        listed, idle = _grouped(fields["verdicts"], notes)
        rows += [("verdicts", map(_row, listed)), ("not_applicable", idle)]
    else:
        head.append(("omitted", asdict(omitted)))
        listed, outcomes = _lettered(fields["verdicts"], fields["targets"], notes)
        rows += [("verdicts", map(_row, listed)), ("outcomes", outcomes)]
    parts = [f"{json.dumps(name)}: {_dump(value)}" for name, value in head]
    for name, values in rows:
        lines = ",\n".join(map(_dump, values))
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]" if lines else f"{json.dumps(name)}: []")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def json_schema() -> str:
    """Return the JSON Schema of a report, the text of report.schema.json."""
    return Path(__file__).with_name("report.schema.json").read_text(encoding="utf-8")


def _row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as an object; a violation also has its short name and severity."""
    row: dict[str, Any] = readable(verdict_to_json(verdict))
    if verdict.status is Status.VIOLATED:
        row |= {ID: verdict.id, SEVERITY: kind(verdict.law)}
    return row


def fields(text: str, origin: str) -> dict[str, Any]:
    """Return the fields of the report that `report_json` wrote. ``origin`` names the text in
    errors.

    Raises: `ReportError` in one sentence if the text is truncated, no report or of another schema.
    """
    data = _report_data(text, origin)
    try:
        laws = tuple(LawNote(**note) for note in data["laws"])
        notes = {note.id: note for note in laws}
        targets = tuple(str(target) for target in data["targets"])
        brief = data["flowref-report"] == BRIEF
        unlisted = _unlettered if brief else _ungrouped
        more = unlisted(data["outcomes" if brief else "not_applicable"], notes)
        return {
            "environment": _environment_from_row(data["environment"]),
            "laws": laws,
            "targets": targets,
            "verdicts": _merged(data["verdicts"], more, (*targets, *notes)),
            "problems": tuple(Problem(**problem) for problem in data["problems"]),
            "complete": bool(data["complete"]),
            "omitted": _omitted(data["omitted"]) if brief else None,
            "recognized": _recognized(data.get("recognized", ())),
            "known": tuple(map(_known_failure_from_row, data.get("known", ()))),
            "expenses": _expenses(data.get("expenses", ())),
            "shard": _shard(data["shard"]) if "shard" in data else None,
        }
    except ReportError as error:
        raise ReportError(f"{origin} is a damaged flowref report: {error}") from None
    except KeyError as error:
        raise ReportError(f"{origin} is a damaged flowref report: it has no {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{origin} is a damaged flowref report ({one_line(error)})") from None


def brief_verdict(verdict: Verdict) -> Verdict:
    """The outcome of a pair with its proof, as in a brief report."""
    return Verdict(
        verdict.target,
        verdict.law,
        verdict.status,
        law_version=verdict.law_version,
        force=verdict.force,
        blocked=verdict.blocked,
        proof=verdict.proof,
    )


def _report_data(text: str, origin: str) -> dict[str, Any]:
    """The JSON object of a report. Raises: `ReportError` for an unknown schema."""
    wanted = "a report written by flowref audit --json"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not text.rstrip().endswith("}"):  # with which every report ends
            how = "is cut off" if text.lstrip().startswith("{") else "is not JSON"
            how = how if text.strip() else "is empty"
            raise ReportError(f"{origin} {how}; expected {wanted}") from None
        raise ReportError(f"{origin} is not JSON ({error}); expected {wanted}") from None
    if not isinstance(data, dict) or "flowref-report" not in data:
        raise ReportError(f"{origin} is JSON but no flowref report; expected {wanted}")
    if data["flowref-report"] not in (FULL, BRIEF):
        raise ReportError(
            f"{origin} has report schema {data['flowref-report']!r}, and this flowref reads "
            f"schemas {FULL} and {BRIEF}; read it with the flowref that wrote it, or audit again"
        )
    return data


def _unmeasured_verdict(
    target: str, note: LawNote, status: Status, silence: NotJudged = SPEAKS
) -> Verdict:
    """A verdict on the current version of a law, without numbers."""
    return Verdict(
        target,
        note.id,
        status,
        silence.reason,
        law_version=note.version,
        force=note.force,
        blocked=silence.blocked,
        remedy=silence.remedy,
    )


def _grouped(
    verdicts: Iterable[Verdict], notes: Mapping[str, LawNote]
) -> tuple[list[Verdict], Iterator[dict[str, Any]]]:
    """The verdicts to list, and rows of the laws that do not apply, by target and reason, without
    times.
    """
    listed: list[Verdict] = []
    idle: dict[tuple[str, NotJudged], list[str]] = {}
    for verdict in verdicts:
        note, target = notes.get(verdict.law), verdict.target
        silence = NotJudged(verdict.reason, verdict.blocked, verdict.remedy)
        if note is not None and verdict.without_time() == _unmeasured_verdict(
            target, note, Status.NOT_APPLICABLE, silence
        ):
            idle.setdefault((target, silence), []).append(verdict.law)
        else:
            listed.append(verdict)
    rows = (
        {"target": target, **_silence_row(silence), "laws": laws}
        for (target, silence), laws in idle.items()
    )
    return listed, rows


def _silence_row(silence: NotJudged) -> dict[str, Any]:
    """The reason of a law that was not applied as JSON, without fields at their defaults."""
    row = {"reason": silence.reason, BLOCKED: silence.blocked, "remedy": silence.remedy}
    return {name: value for name, value in row.items() if value or name == "reason"}


def _ungrouped(rows: Iterable[Any], notes: Mapping[str, LawNote]) -> Iterator[Verdict]:
    for row in rows:
        silence = NotJudged(row["reason"], row.get(BLOCKED, False), row.get("remedy", ""))
        for law in row["laws"]:
            yield _unmeasured_verdict(row["target"], notes[law], Status.NOT_APPLICABLE, silence)


def _lettered(
    verdicts: Iterable[Verdict], targets: Sequence[str], notes: Mapping[str, LawNote]
) -> tuple[list[Verdict], Iterator[dict[str, str]]]:
    """The verdicts to list, and a row of letters for each target."""
    listed: list[Verdict] = []
    letters = {(target, law): ELSEWHERE for target in targets for law in notes}
    for verdict in verdicts:
        pair, status = (verdict.target, verdict.law), verdict.status
        letter = LETTERS.get((status, verdict.blocked))
        if (
            letter is not None
            and letters.get(pair) == ELSEWHERE
            and verdict
            == _unmeasured_verdict(
                verdict.target, notes[verdict.law], status, NotJudged("", verdict.blocked)
            )
        ):
            letters[pair] = letter
        else:
            listed.append(verdict)
    rows = (
        {"target": target, "laws": "".join(letters[target, law] for law in notes)}
        for target in dict.fromkeys(targets)
    )
    return listed, rows


def _unlettered(rows: Iterable[Any], notes: Mapping[str, LawNote]) -> Iterator[Verdict]:
    meanings = {letter: meaning for meaning, letter in LETTERS.items()}
    for row in rows:
        for letter, note in zip(row["laws"], notes.values(), strict=True):
            if letter != ELSEWHERE:
                status, blocked = meanings[letter]
                yield _unmeasured_verdict(row["target"], note, status, NotJudged("", blocked))


def _merged(rows: Any, more: Iterable[Verdict], names: Sequence[str]) -> tuple[Verdict, ...]:
    """All verdicts, sorted by target and law if the listed ones are."""
    ranks = {name: rank for rank, name in enumerate(names)}

    def rank(verdict: Verdict) -> tuple[int, int]:
        return ranks.get(verdict.target, -1), ranks.get(verdict.law, -1)

    verdicts = [verdict_from_json(row) for row in rows]
    ordered = verdicts == sorted(verdicts, key=rank)
    verdicts += more
    return tuple(sorted(verdicts, key=rank) if ordered else verdicts)


def _recognized_rows(recognized: Mapping[str, Recognized]) -> Iterator[dict[str, Any]]:
    for target, one in recognized.items():
        yield {"target": target, **recognized_to_json(one)}


def _recognized(rows: Iterable[dict[str, Any]]) -> dict[str, Recognized]:
    """Target -> what it was recognized as; empty in older reports."""
    return {str(row["target"]): recognized_from_json(row) for row in rows}


def _expense_rows(expenses: Mapping[str, Expense]) -> Iterator[dict[str, Any]]:
    for target, one in expenses.items():
        yield readable({"target": target, "seconds": hexed(one.seconds), "peak": one.peak})


def _expenses(rows: Iterable[dict[str, Any]]) -> dict[str, Expense]:
    """Target -> its cost; empty in older reports."""
    return {str(row["target"]): Expense(unhexed(row["seconds"]), int(row["peak"])) for row in rows}


def _environment_from_row(row: dict[str, Any]) -> Environment:
    versions = tuple((str(name), str(number)) for name, number in row["versions"])
    seconds = unhexed(row["seconds"])
    own = {name: value for name, value in row.items() if name != DECIMAL}
    return Environment(**{**own, "versions": versions, "seconds": seconds})


def _omitted(row: dict[str, Any]) -> Omitted:
    if any(type(count) is not int for count in row.values()):
        raise ReportError(f"points were counted as {row!r}; expected whole numbers")
    return Omitted(**row)


def _known_failure_from_row(row: dict[str, Any]) -> KnownFailure:
    if any(type(value) is not str for value in row.values()):
        raise ReportError(f"a known failure was written as {row!r}; expected texts")
    return KnownFailure(**{**row, "standing": Standing(row["standing"])})


def _shard(row: dict[str, Any]) -> Shard:
    index, count = row["index"], row["count"]
    if type(index) is not int or type(count) is not int or not 1 <= index <= count:
        raise ReportError(f"its shard is {index!r} of {count!r}; expected whole numbers from 1 on")
    return Shard(index, count, tuple(map(str, row["targets"])))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))
