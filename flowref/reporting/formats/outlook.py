"""Shared by the formats: locations of targets, which failures count, and the text of a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowref.model import KnownFailure, Recognized, Standing, Status, Verdict
from flowref.reporting import faults
from flowref.reporting.causes import Cause, by_target, explained
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.severity import severity
from flowref.reporting.text import clean, plain_statement
from flowref.reporting.words import again, circumstances, explanations, inputs, remark, seen

# The names of SARIF, the gravest first.
LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Failure:
    """A verdict that fails. ``path`` and ``line``: of the function at fault or the target, if
    known; ``known``: its known failure; ``cause``: the violation that explains it; ``where``: the
    location with the function's name; ``recognized``: what the target was recognized as.
    """

    verdict: Verdict
    statement: str
    path: str = ""
    line: int = 0
    known: KnownFailure | None = None
    cause: Cause | None = None
    where: str = ""
    recognized: Recognized | None = None

    @property
    def accepted(self) -> bool:
        """Whether it fails as recorded, which counts as no failure."""
        return self.known is not None and self.known.standing is Standing.KNOWN

    @property
    def minor(self) -> bool:
        """Whether it is minor or explained by another violation."""
        return self.verdict.minor or self.cause is not None

    @property
    def headline(self) -> str:
        """The observed numbers or the error, on one line."""
        verdict = self.verdict
        numbers = seen(verdict) if verdict.status is Status.VIOLATED else ""
        return numbers or clean(verdict.reason) or str(verdict.status)

    @property
    def details(self) -> list[str]:
        """Lines for a maintainer: law, numbers, case, commands to reproduce."""
        verdict, case = self.verdict, self.verdict.counterexample
        lines = [f"the law: {plain_statement(self.statement)}"] if self.statement else []
        lines.append(f"seen: {self.headline}")
        if verdict.status is Status.VIOLATED:
            lines.append(f"severity: {severity(verdict)}")
        if self.cause is not None:
            lines.append(f"explained: violated {self.cause.because}")
        text = remark(verdict)
        if text and text != self.headline:
            lines.append(f"remark: {text}")
        lines += [f"{name}: {words}" for name, words in explanations(verdict)]
        lines += [f"where: {self.where}"] if self.where else []
        if case is not None:
            lines.append(f"input: {inputs(case)}")
            lines.append(f"circumstances: {circumstances(case, verdict.part)}")
        if self.known is not None:
            notes = (self.known.reason, self.known.issue, self.known.detail)
            words = "; ".join(clean(text) for text in notes if text)
            lines.append(f"{str(self.known.standing).lower()}: {words}")
        commands = again(verdict, recognized=self.recognized)
        return [*lines, *(f"again: {command}" for command in commands)]


def level(failure: Failure) -> str:
    """Return one of `LEVELS`: "warning" for an explained violation, "note" for a minor one."""
    return "note" if failure.verdict.minor else "warning" if failure.cause else "error"


def failures(report: Report) -> Iterator[Failure]:
    """Yield the failing verdicts of a report, known ones too, target by target."""
    statements = {note.id: note.statement for note in report.laws}
    known = {(one.target, one.law): one for one in report.known}
    for target, verdicts in by_target(report.verdicts).items():
        causes: Mapping[str, Cause] = explained(verdicts)
        recognized = report.recognized.get(target)
        for verdict in (one for one in verdicts if one.status in FAILING):
            yield Failure(
                verdict,
                statements.get(verdict.law, ""),
                *faults.fault_location(verdict, recognized),
                known.get((target, verdict.law)),
                causes.get(verdict.law),
                faults.fault(verdict, recognized),
                recognized,
            )


def target_location(report: Report, target: str) -> tuple[str, int]:
    """Return file and line of a target's source; ``("", 0)`` if unknown."""
    recognized = report.recognized.get(target)
    return ("", 0) if recognized is None else (recognized.path, recognized.line)
