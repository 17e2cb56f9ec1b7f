"""The report: targets x laws with their verdicts, and the JSON that is its truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flowref.model import FlowrefError, ReportError, Status, Verdict
from flowref.reporting.encoding import hexed, unhexed, verdict_from_json, verdict_to_json

SCHEMA = 2
BROKEN = (Status.ERROR, Status.TIMEOUT, Status.CRASHED)
OK, VIOLATION, USAGE, CRASH, NOTHING = 0, 1, 2, 3, 5


class FlowrefViolation(FlowrefError, AssertionError):
    """A law is violated, or a target broke; the message lists every failure. Test runners see an
    AssertionError.
    """


@dataclass(frozen=True)
class Environment:
    """Where, with what and how an audit ran."""

    flowref: str
    python: str
    platform: str
    versions: tuple[tuple[str, str], ...] = ()
    command: str = ""
    profile: str = "standard"
    seed: int = 0
    started: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class LawNote:
    """What a reader of the report needs to know of a law."""

    id: str
    version: int
    statement: str
    force: str
    tolerance: str
    source: str = ""


def idle_verdict(target: str, note: LawNote, reason: str) -> Verdict:
    """That a law does not apply, and nothing else."""
    return Verdict(
        target, note.id, Status.NOT_APPLICABLE, reason, law_version=note.version, force=note.force
    )


@dataclass(frozen=True)
class Problem:
    """A spec that could not be understood, or a target that could not be loaded: one sentence."""

    spec: str
    message: str


@dataclass(frozen=True, eq=False)
class Report:
    """Targets x laws. ``complete`` is False for an interrupted audit, whose pairs not reached are
    NOT_RUN.
    """

    environment: Environment
    laws: tuple[LawNote, ...] = ()
    targets: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    complete: bool = True

    def __eq__(self, other: object) -> bool:
        """Reports are equal when their JSON is: nan equals nan there, and 0.0 is not -0.0."""
        return isinstance(other, Report) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        """Agrees with equality."""
        return hash((self.environment, self.targets, len(self.verdicts)))

    def of(self, target: str) -> tuple[Verdict, ...]:
        """The verdicts about one target."""
        return tuple(verdict for verdict in self.verdicts if verdict.target == target)

    def by_target(self) -> dict[str, list[Verdict]]:
        """All verdicts, grouped by target in the order of ``targets``."""
        groups: dict[str, list[Verdict]] = {target: [] for target in self.targets}
        for verdict in self.verdicts:
            groups.setdefault(verdict.target, []).append(verdict)
        return groups

    def with_status(self, *statuses: Status) -> tuple[Verdict, ...]:
        """The verdicts that have one of the statuses."""
        return tuple(verdict for verdict in self.verdicts if verdict.status in statuses)

    @property
    def violations(self) -> tuple[Verdict, ...]:
        """The verdicts that accuse."""
        return self.with_status(Status.VIOLATED)

    @property
    def counts(self) -> Counter[Status]:
        """How many verdicts have each status."""
        return Counter(verdict.status for verdict in self.verdicts)

    def note(self, law: str) -> LawNote | None:
        """What is said of one law."""
        return next((note for note in self.laws if note.id == law), None)

    def find(self, identity: str) -> tuple[Verdict, ...]:
        """The verdicts with this short name; violations only, if any bears it. Case does not
        matter.
        """
        named = tuple(
            verdict for verdict in self.verdicts if verdict.id == identity.strip().upper()
        )
        return tuple(verdict for verdict in named if verdict.status is Status.VIOLATED) or named

    @property
    def exit_code(self) -> int:
        """0 nothing new, 1 a violation, 2 a target that could not be loaded, 3 crash or time-out, 5
        nothing checked.
        """
        counts = self.counts
        if self.problems:
            return USAGE
        if counts[Status.VIOLATED]:
            return VIOLATION
        if any(counts[status] for status in BROKEN):
            return CRASH
        return OK if counts[Status.HOLDS] else NOTHING

    def raise_for_violations(self) -> None:
        """Raise unless every target could be loaded and judged, and none is accused.

        Raises: `FlowrefViolation` naming every violation, crash and unloadable target, in words.
        """
        from flowref.reporting.words import failures

        lines = failures(self)
        if lines:
            raise FlowrefViolation("\n".join(lines))

    def without_time(self) -> Report:
        """The report less its durations and date: what two runs of the same audit must agree on."""
        verdicts = tuple(verdict.without_time() for verdict in self.verdicts)
        return replace(
            self, environment=replace(self.environment, started="", seconds=0.0), verdicts=verdicts
        )

    def to_json(self) -> str:
        """The report as JSON text, ASCII, one verdict per line; floats are hexadecimal, so it reads
        back exactly.

        Laws that do not apply, most of the pairs of an audit, share a line per target and reason,
        and carry no time.
        """
        apart, idle = self._idle()
        environment = {**asdict(self.environment), "seconds": hexed(self.environment.seconds)}
        head: list[tuple[str, Any]] = [
            ("flowref-report", SCHEMA),
            ("complete", self.complete),
            ("environment", environment),
        ]
        rows: list[tuple[str, Iterable[Any]]] = [
            ("laws", (asdict(note) for note in self.laws)),
            ("targets", self.targets),
            ("problems", (asdict(problem) for problem in self.problems)),
            ("verdicts", (verdict_to_json(verdict) for verdict in apart)),
            (
                "not_applicable",
                (
                    {"target": target, "reason": reason, "laws": laws}
                    for (target, reason), laws in idle.items()
                ),
            ),
        ]
        parts = [f"{json.dumps(name)}: {_dump(value)}" for name, value in head]
        for name, values in rows:
            lines = ",\n".join(_dump(value) for value in values)
            parts.append(
                f"{json.dumps(name)}: [\n{lines}\n]" if lines else f"{json.dumps(name)}: []"
            )
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def _idle(self) -> tuple[list[Verdict], dict[tuple[str, str], list[str]]]:
        """The verdicts to be written one by one, and the laws that do not apply by target and
        reason.
        """
        notes = {note.id: note for note in self.laws}
        apart: list[Verdict] = []
        idle: dict[tuple[str, str], list[str]] = {}
        for verdict in self.verdicts:
            note = notes.get(verdict.law)
            if note is not None and verdict.without_time() == idle_verdict(
                verdict.target, note, verdict.reason
            ):
                idle.setdefault((verdict.target, verdict.reason), []).append(verdict.law)
            else:
                apart.append(verdict)
        return apart, idle

    @classmethod
    def from_json(cls, text: str, origin: str = "the text") -> Report:
        """The report that `to_json` wrote. ``origin`` names the text in errors.

        Raises: `ReportError` in one sentence when the text is cut off, foreign or of another
        schema.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReportError(
                f"{origin} is not JSON ({error}); expected a report written by flowref audit --json"
            ) from None
        if not isinstance(data, dict) or "flowref-report" not in data:
            raise ReportError(
                f"{origin} is JSON but no flowref report; expected a file written by flowref "
                "audit --json"
            )
        if data["flowref-report"] != SCHEMA:
            raise ReportError(
                f"{origin} has report schema {data['flowref-report']!r}, and this flowref reads "
                f"schema {SCHEMA}; "
                "read it with the flowref that wrote it, or audit again"
            )
        try:
            environment = data["environment"]
            laws = tuple(LawNote(**note) for note in data["laws"])
            notes = {note.id: note for note in laws}
            places = {name: place for place, name in enumerate([*data["targets"], *notes])}

            def place(verdict: Verdict) -> tuple[int, int]:
                return places.get(verdict.target, -1), places.get(verdict.law, -1)

            verdicts = [verdict_from_json(row) for row in data["verdicts"]]
            ordered = verdicts == sorted(verdicts, key=place)
            for row in data["not_applicable"]:
                verdicts += [
                    idle_verdict(row["target"], notes[law], row["reason"]) for law in row["laws"]
                ]
            if ordered:  # as an audit writes them, target by target
                verdicts.sort(key=place)
            return cls(
                environment=Environment(
                    **{
                        **environment,
                        "versions": tuple(
                            (str(name), str(number)) for name, number in environment["versions"]
                        ),
                        "seconds": unhexed(environment["seconds"]),
                    }
                ),
                laws=laws,
                targets=tuple(str(target) for target in data["targets"]),
                verdicts=tuple(verdicts),
                problems=tuple(Problem(**problem) for problem in data["problems"]),
                complete=bool(data["complete"]),
            )
        except ReportError as error:
            raise ReportError(f"{origin} is a damaged flowref report: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReportError(
                f"{origin} is a damaged flowref report ({type(error).__name__}: {error})"
            ) from None

    def save(self, path: Path) -> None:
        """Write the JSON to a file, whole or not at all.

        Raises: `ReportError` when the file cannot be written.
        """
        write(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Report:
        """Read a report file.

        Raises: `ReportError` in one sentence.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ReportError(f"{path} cannot be read: {reason}") from None
        return cls.from_json(text, str(path))


def write(path: Path, text: str) -> None:
    """Replace a file's text in one step, so that a reader never meets half of it.

    Raises: `ReportError` when that is not possible.
    """
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None


def _dump(value: Any) -> str:
    """Compact, strict JSON."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))
