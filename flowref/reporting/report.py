"""The report: targets x laws with their verdicts, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from flowref.model import KnownFailure, Problem, Recognized, Standing, Status, Verdict
from flowref.reporting import schema
from flowref.reporting.contents import Environment, Expense, LawNote, Omitted, Shard
from flowref.reporting.files import read_file_text, replace_file
from flowref.reporting.lines import target_labels
from flowref.reporting.notebook import headline, report_html
from flowref.reporting.outcomes import BROKEN, FAILING, fails, violations
from flowref.reporting.terminal import target_lines
from flowref.reporting.text import clean
from flowref.reporting.violation_errors import FlowrefViolation, FlowrefViolations, group

__all__ = ["FlowrefViolation", "FlowrefViolations", "Report"]
OK, VIOLATION, USAGE, CRASH, STALE, NOTHING = range(6)


@dataclass(frozen=True, eq=False)
class Report:
    """Targets x laws. ``complete``: False for an interrupted audit, whose unreached pairs are
    NOT_RUN. ``omitted``: the counts of a brief report, None in full. ``recognized``: target -> what
    it was recognized as. ``known``: known failures with their standing, which changes no verdict.
    ``expenses``: target -> cost of its pairs. ``shard``: which part of an audit; None for all.
    """

    environment: Environment
    laws: tuple[LawNote, ...] = ()
    targets: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()
    complete: bool = True
    omitted: Omitted | None = None
    recognized: Mapping[str, Recognized] = field(default_factory=dict)
    known: tuple[KnownFailure, ...] = ()
    expenses: Mapping[str, Expense] = field(default_factory=dict)
    shard: Shard | None = None

    def __repr__(self) -> str:
        """One line: the verdicts are in ``verdicts``, their summary in ``summary()``."""
        laws = f"{len(self.laws)} law{'' if len(self.laws) == 1 else 's'}"
        targets = f"{len(self.targets)} target{'' if len(self.targets) == 1 else 's'}"
        return f"<Report on {targets} under {laws}: {violations(self.verdicts)}>"

    def __eq__(self, other: object) -> bool:
        """Reports are equal when their JSON is: nan equals nan there, and 0.0 is not -0.0."""
        return isinstance(other, Report) and self.to_json() == other.to_json()

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
        """The verdicts with status VIOLATED."""
        return self.with_status(Status.VIOLATED)

    def known_failure(self, verdict: Verdict) -> KnownFailure | None:
        """The known failure of a verdict's pair; None if it is not one."""
        pair = verdict.target, verdict.law
        return next((one for one in self.known if (one.target, one.law) == pair), None)

    def accepts(self, verdict: Verdict) -> bool:
        """Whether a verdict fails as recorded among the known failures."""
        known = self.known_failure(verdict)
        return known is not None and known.standing is Standing.KNOWN

    @property
    def new_failures(self) -> tuple[Verdict, ...]:
        """The failures that are not known, or fail in another way; minor violations are none."""
        accepted = {(k.target, k.law) for k in self.known if k.standing is Standing.KNOWN}
        failed = filter(fails, self.verdicts)
        return tuple(verdict for verdict in failed if (verdict.target, verdict.law) not in accepted)

    @property
    def minor(self) -> tuple[Verdict, ...]:
        """The violations below float32 rounding."""
        return tuple(verdict for verdict in self.verdicts if verdict.minor)

    @property
    def stale(self) -> tuple[KnownFailure, ...]:
        """The known failures that no longer fail."""
        return tuple(one for one in self.known if one.standing is Standing.FIXED)

    @property
    def counts(self) -> Counter[Status]:
        """The number of verdicts by status."""
        return Counter(verdict.status for verdict in self.verdicts)

    def note(self, law: str) -> LawNote | None:
        """The note of one law; None if the report has none."""
        return next((note for note in self.laws if note.id == law), None)

    def find(self, identity: str) -> tuple[Verdict, ...]:
        """Return the verdicts with this short name; only violations, if there are any. Case does
        not matter.
        """
        name = identity.strip().upper()
        named = tuple(verdict for verdict in self.verdicts if verdict.id == name)
        return tuple(verdict for verdict in named if verdict.status is Status.VIOLATED) or named

    @property
    def exit_code(self) -> int:
        """0: nothing new; 1: a new violation; 2: a target could not be loaded; 3: crash or
        time-out; 5: nothing checked.
        """
        new = {verdict.status for verdict in self.new_failures}
        if self.problems:
            return USAGE
        if Status.VIOLATED in new:
            return VIOLATION
        if new & set(BROKEN):
            return CRASH
        return OK if self.counts[Status.HOLDS] or self.with_status(*FAILING) else NOTHING

    def raise_for_violations(self) -> None:
        """Raise unless every target could be loaded and judged without new failures.

        Raises: `FlowrefViolations`, an AssertionError and a group of one exception for each
        violation, crash and unloadable target.
        """
        __tracebackhide__ = True
        problems = [problem.message for problem in self.problems]
        held = self.with_status(Status.HOLDS)
        raised = group(self.new_failures, problems, self._statements, held, self.recognized)
        if raised is not None:
            raise raised

    def summary(self) -> str:
        """A line for each target with its failures below, and for each that could not be audited."""
        lines, groups = [], self.by_target()
        statements, called = self._statements, target_labels(groups)
        for target, verdicts in groups.items():
            known = [one for one in self.known if one.target == target]
            recognized = self.recognized.get(target)
            lines += target_lines(called[target], verdicts, statements, recognized, known=known)
        lines += [f"cannot be audited: {clean(problem.message)}" for problem in self.problems]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The HTML that notebooks show."""
        return report_html(
            headline(
                self.new_failures, len(self.targets), len(self.problems), complete=self.complete
            ),
            [problem.message for problem in self.problems],
            self.by_target(),
            self._statements,
            self.recognized,
            self.known,
        )

    @property
    def _statements(self) -> dict[str, str]:
        return {note.id: note.statement for note in self.laws}

    def without_time(self) -> Report:
        """The report without durations and date: equal for two runs of the same audit."""
        verdicts = tuple(verdict.without_time() for verdict in self.verdicts)
        environment = replace(self.environment, started="", seconds=0.0)
        return replace(self, environment=environment, verdicts=verdicts, expenses={})

    def brief(self) -> Report:
        """The report with only the outcome of pairs whose law holds or does not apply: their
        numbers, reasons and times are dropped, and their points counted in ``omitted``.
        """
        if self.omitted is not None:
            return self
        quiet = self.with_status(*schema.QUIET)
        points = sum(verdict.counts.held for verdict in quiet)
        undecided = sum(verdict.counts.undecided for verdict in quiet)
        verdicts = tuple(
            schema.brief_verdict(verdict) if verdict.status in schema.QUIET else verdict
            for verdict in self.verdicts
        )
        return replace(self, verdicts=verdicts, omitted=Omitted(points, undecided))

    def to_json(self) -> str:
        """The report as JSON text (`schema`), which reads back exactly, except for the times of
        laws that do not apply.
        """
        return schema.report_json(vars(self))

    @classmethod
    def from_json(cls, text: str, origin: str = "the text") -> Report:
        """Return the report that `to_json` wrote. ``origin`` names the text in errors.

        Raises: `ReportError` in one sentence if the text is truncated, no report or of another
        schema.
        """
        return cls(**schema.fields(text, origin))

    def save(self, path: Path) -> None:
        """Write the JSON to a file, atomically.

        Raises: `ReportError` if the file cannot be written.
        """
        replace_file(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Report:
        """Return the report of a file.

        Raises: `ReportError` in one sentence.
        """
        return cls.from_json(read_file_text(path), str(path))


def to_json(report: Report) -> str:
    """The report as JSON text."""
    return report.to_json()
