"""A report as SARIF 2.1.0, which code-scanning services show next to the source: a rule for each
law, a result for each failure and each advice.

A result points at the line of its target; one of a library target names the target instead of a
file. Its fingerprint is a hash of target and law, so that a service recognizes a failure in the
next run.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from math import isfinite
from typing import Any
from urllib.parse import quote

from flowref.model import Status, Verdict, statement_of
from flowref.reporting.contents import LawNote
from flowref.reporting.formats.outlook import Failure, failures, level, target_location
from flowref.reporting.report import OK, Report
from flowref.reporting.severity import kind
from flowref.reporting.text import clean, plain_statement

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
FINGERPRINT = "flowrefPair/v1"
# The fingerprint by which GitHub recognizes an alert; without it, GitHub hashes the line's text.
LINE_HASH = "primaryLocationLineHash"
# Largest length of a rule's title, the first sentence of its statement.
TITLE = 120
Json = dict[str, Any]


def to_sarif(report: Report) -> str:
    """Return the report as SARIF 2.1.0 JSON."""
    ranks = {note.id: rank for rank, note in enumerate(report.laws)}
    run = {
        "tool": {"driver": _driver(report)},
        "automationDetails": {"id": "flowref/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": list(_results(report, ranks)),
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _driver(report: Report) -> Json:
    version = report.environment.flowref
    return {"name": "flowref", "version": version, "rules": [_rule(note) for note in report.laws]}


def _rule(note: LawNote) -> Json:
    statement = plain_statement(note.statement)
    source = f"\n\nStated in: {plain_statement(note.source)}." if note.source else ""
    command = f"flowref explain {shlex.quote(note.id)}"
    family, _, name = statement_of(note.id).partition("/")
    return {
        "id": note.id,
        "name": "".join(word.capitalize() for word in re.split(r"\W+", note.id)),
        "shortDescription": {"text": _title(statement) or note.id},
        "fullDescription": {"text": statement or note.id},
        "help": {
            "text": f"{statement}{source}\n\nMore, with the defects that it catches: {command}",
            "markdown": f"{clean(note.statement)}{source}\n\nMore, with the defects that it "
            f"catches: `{command}`",
        },
        "defaultConfiguration": {"level": "note" if note.force == "advice" else "error"},
        "properties": {"tags": [family, name], "force": note.force, "tolerance": note.tolerance},
    }


def _title(statement: str) -> str:
    first = re.split(r"(?<=[.;:]) ", statement, maxsplit=1)[0]
    return first if len(first) <= TITLE else first[: TITLE - 3] + "..."


def _invocation(report: Report) -> Json:
    """The run; targets that could not be loaded are notifications, since they have no line."""
    environment = report.environment
    invocation: Json = {
        "executionSuccessful": report.complete and not report.problems,
        "exitCode": report.exit_code if report.complete else OK,
    }
    if environment.command:
        invocation["commandLine"] = clean(environment.command)
    if environment.started:
        invocation["startTimeUtc"] = environment.started
    if not report.complete:
        del invocation["exitCode"]
    notes = [
        {"level": "error", "message": {"text": clean(problem.message) or "no reason given"}}
        for problem in report.problems
    ]
    if notes:
        invocation["toolConfigurationNotifications"] = notes
    return invocation


def _results(report: Report, ranks: dict[str, int]) -> Iterator[Json]:
    for failure in failures(report):
        yield _failed(failure, ranks)
    for verdict in report.with_status(Status.ADVICE):
        path, line = target_location(report, verdict.target)
        statement = next((note.statement for note in report.laws if note.id == verdict.law), "")
        yield _result(Failure(verdict, statement, path, line), "note", ranks)


def _failed(failure: Failure, ranks: dict[str, int]) -> Json:
    result = _result(failure, level(failure), ranks)
    result["properties"] |= _severity(failure.verdict)
    if failure.accepted and failure.known is not None:
        why = "; ".join(filter(None, (failure.known.reason, failure.known.issue)))
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": clean(why)}
        ]
    return result


def _severity(verdict: Verdict) -> Json:
    """What a violation makes wrong, and its size in nats, as properties of its result."""
    if verdict.status is not Status.VIOLATED:
        return {}
    said: Json = {"severity": kind(verdict.law), "minor": verdict.minor}
    if (size := verdict.size) is not None:
        said |= {
            "nats": size.nats,
            "largestNats": size.largest,
            "bitsPerDimension": size.bits_per_dim,
        }
    return {
        name: value for name, value in said.items() if isinstance(value, str) or isfinite(value)
    }


def _result(failure: Failure, level: str, ranks: dict[str, int]) -> Json:
    verdict = failure.verdict
    name = f" {verdict.id}" if verdict.status is Status.VIOLATED else ""
    lines = [f"{verdict.status}{name} in {clean(verdict.target)}", *failure.details]
    result: Json = {
        "ruleId": verdict.law,
        "level": level,
        "message": {"text": "\n".join(lines)},
        "locations": [_location(failure)],
        "partialFingerprints": {
            FINGERPRINT: result_fingerprint(verdict),
            LINE_HASH: f"{result_fingerprint(verdict)}:1",
        },
        "properties": {"target": clean(verdict.target), "status": str(verdict.status)},
    }
    if verdict.law in ranks:
        result["ruleIndex"] = ranks[verdict.law]
    return result


def _location(failure: Failure) -> Json:
    target = clean(failure.verdict.target)
    return {
        "physicalLocation": {
            "artifactLocation": {
                "uri": quote(failure.path or target.replace(":", "/", 1), safe="/"),
                "uriBaseId": ROOT,
            },
            "region": {"startLine": max(failure.line, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": target, "kind": "object"}],
    }


def result_fingerprint(verdict: Verdict) -> str:
    """A hash of target and law."""
    return hashed(f"{verdict.target}\0{verdict.law}")


def hashed(text: str) -> str:
    """The first 32 hex digits of the text's SHA-256."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
