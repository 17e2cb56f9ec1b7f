"""Results on disk: verdicts as they come, so that an interrupted audit can be resumed, and the last
reports. A journal belongs to one audit: its name is a digest of everything that the verdicts depend
on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.machinery
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import flowref
from flowref.loading import data
from flowref.model import USER, Law, Problem, Recognized, ReportError, Target, Verdict
from flowref.reporting.contents import FREE, Expense
from flowref.reporting.report import Report
from flowref.reporting.verdict_json import (
    recognized_from_json,
    recognized_to_json,
    verdict_from_json,
    verdict_to_json,
)

FOLDER = ".flowref"
LAST = "report.json"
# Number of older reports that are kept, to find violations by their short names.
EARLIER = 5
SCHEMA = 1
FILES = 2000
# The files of a flow in the folder of a training run.
RUN = ("config.json", "checkpoint.safetensors")


@dataclass(frozen=True)
class Earlier:
    """The results of an interrupted run: verdicts, targets that could not be loaded, and
    recognition and costs of the others.
    """

    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    recognized: Mapping[str, Recognized] = field(default_factory=dict)
    expenses: Mapping[str, Expense] = field(default_factory=dict)


class Journal:
    """An append-only file of JSON lines: a header with the digest, then a line per verdict, per
    unloadable target, per recognized target, and per cost of a pair.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self.path = folder / f"audit-{digest[:16]}.jsonl"
        self.digest = digest
        self.file: IO[str] | None = None

    def read(self) -> Earlier:
        """Return the results of an earlier run of the same audit; empty if there is none."""
        verdicts: dict[tuple[str, str], Verdict] = {}
        problems: dict[str, Problem] = {}
        recognized: dict[str, Recognized] = {}
        expenses: dict[str, Expense] = {}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
            if not lines or json.loads(lines[0]) != {
                "flowref-journal": SCHEMA,
                "digest": self.digest,
            }:
                return Earlier()
        except (OSError, ValueError):
            return Earlier()
        for line in lines[1:]:
            try:
                row = json.loads(line)
                if "problem" in row:
                    problems[row["problem"]] = Problem(row["problem"], row["message"])
                elif "recognized" in row:
                    recognized[row["recognized"]] = recognized_from_json(row["as"])
                elif "spent" in row:
                    target = row.pop("spent")
                    expenses[target] = expenses.get(target, FREE) + Expense(**row)
                else:
                    verdict = verdict_from_json(row)
                    verdicts[verdict.target, verdict.law] = verdict
            except (ValueError, KeyError, TypeError, ReportError):
                break  # the line that was being written at the interruption
        return Earlier(tuple(verdicts.values()), tuple(problems.values()), recognized, expenses)

    def open(self, earlier: Earlier | None = None) -> None:
        """Write the file with the results of an earlier run.

        Raises: `ReportError` if the folder cannot be written.
        """
        try:
            _make_report_folder(self.path.parent)
            self.file = self.path.open("w", encoding="utf-8")
        except OSError as error:
            raise ReportError(f"{self.path} cannot be written: {error.strerror}") from None
        self._line({"flowref-journal": SCHEMA, "digest": self.digest})
        left = earlier or Earlier()
        for target, recognized in left.recognized.items():
            self.recognize(target, recognized)
        for target, expense in left.expenses.items():
            self.spend(target, expense)
        for verdict in left.verdicts:
            self.add(verdict)
        for problem in left.problems:
            self.fail(problem)

    def add(self, verdict: Verdict) -> None:
        """Write a verdict."""
        self._line(verdict_to_json(verdict))

    def fail(self, problem: Problem) -> None:
        """Write why a target cannot be loaded."""
        self._line({"problem": problem.spec, "message": problem.message})

    def recognize(self, target: str, recognized: Recognized) -> None:
        """Write what a target was recognized as."""
        self._line({"recognized": target, "as": recognized_to_json(recognized)})

    def spend(self, target: str, expense: Expense) -> None:
        """Write the cost of a pair."""
        self._line({"spent": target, **asdict(expense)})

    def _line(self, row: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()

    def close(self, *, finished: bool) -> None:
        """Close the file; the journal of a finished audit is deleted."""
        if self.file is not None:
            self.file.close()
            self.file = None
            if finished:
                with contextlib.suppress(OSError):
                    self.path.unlink()


def _make_report_folder(folder: Path) -> None:
    """Make the folder of reports, ignored by git."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def save_last(report: Report, folder: Path) -> None:
    """Write a report as the last one of a folder. Raises: `ReportError` if it cannot be written."""
    try:
        _make_report_folder(folder)
    except OSError as error:
        raise ReportError(f"{folder} cannot be written: {error.strerror}") from None
    names = [LAST, *(f"report-{age}.json" for age in range(1, EARLIER + 1))]
    for newer, older in reversed(list(itertools.pairwise(names))):
        with contextlib.suppress(OSError):  # fewer reports exist
            (folder / newer).replace(folder / older)
    report.save(folder / LAST)


def report_of(identity: str, folder: Path | None = None) -> Report:
    """Return the newest report of a folder with a case of this short name; without one, the newest
    that has the name, or the last report.

    Raises: `ReportError` if there is no report.
    """
    last = last_report(folder)
    named = []
    for report in (last, *_earlier(folder or Path(FOLDER))) if identity else ():
        found = report.find(identity)
        if any(verdict.counterexample is not None for verdict in found):
            return report
        named += [report] if found else []
    return next(iter(named), last)


def _earlier(folder: Path) -> Iterator[Report]:
    for age in range(1, EARLIER + 1):
        with contextlib.suppress(ReportError):
            yield Report.load(folder / f"report-{age}.json")


def last_report(folder: Path | None = None) -> Report:
    """Return the report of the last audit in a folder.

    Raises: `ReportError` if there is none.
    """
    path = (folder or Path(FOLDER)) / LAST
    if not path.is_file():
        raise ReportError(
            f"there is no {path} here; run flowref audit in this folder, or name a report file"
        )
    return Report.load(path)


def digest(
    targets: Sequence[Target],
    laws: Sequence[Law],
    settings: Any,
    versions: Sequence[tuple[str, str]],
    shard: str = "",
) -> str:
    """The SHA-256, in hex, of everything that an audit's verdicts depend on, except what is
    expensive to read, such as data files.
    """
    state = hashlib.sha256()
    for part in (
        [str(target) for target in targets],
        [(law.id, law.version) for law in laws],
        repr(settings),
        list(versions),
        own_digest(),
        file_digests(targets, settings.data),
        shard,
    ):
        state.update(json.dumps(part).encode())
    return state.hexdigest()


def file_digests(targets: Sequence[Target], points: str) -> dict[str, str]:
    """Return name -> digest of the user's files that verdicts depend on: sources, weights, runs and
    data.
    """
    users = sorted({target.component for target in targets if target.adapter == USER})
    digests = {component: _source_digest(component) for component in users}
    for target in targets:
        if weights := target.option("weights"):
            digests[weights] = _of_files([Path(weights)])
        if run := target.option("path"):
            digests[run] = _of_files([Path(run) / name for name in RUN])
    if points:
        digests[points] = data.data_digest(points)
    return digests


@functools.cache
def own_digest() -> str:
    """The digest of flowref's source."""
    return _of_files(sorted(Path(flowref.__path__[0]).rglob("*.py")))


def _source_digest(component: str) -> str:
    """The digest of a user's file and its neighbors, or of a whole package; nothing is imported."""
    module = component.rpartition(":")[0]
    if module.endswith(".py"):
        return _of_files([Path(module), *sorted(Path(module).parent.glob("*.py"))])
    package = module.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(package, ["", *sys.path])
    if spec is None:
        return ""
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    return _of_files(files or [Path(spec.origin or "")])


def _of_files(files: Sequence[Path]) -> str:
    state = hashlib.sha256()
    for file in files[:FILES]:
        with contextlib.suppress(OSError):
            state.update(str(file.name).encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()
