"""Failures as exceptions: one for each, and a group of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from flowref.model import FlowrefError, Recognized, Status, Verdict
from flowref.reporting.causes import by_size, by_target, explained
from flowref.reporting.faults import fault
from flowref.reporting.lines import target_labels
from flowref.reporting.text import clean, command, wrapped_lines
from flowref.reporting.words import failure, live, symptom

# The most laws named in the first line of a group.
NAMED = 4


class FlowrefViolation(FlowrefError, AssertionError):
    """A law is violated, or a target raises or cannot be loaded. Test runners see an
    AssertionError. ``verdict``: its verdict, None if nothing was measured.
    """

    verdict: Verdict | None = None


class FlowrefViolations(ExceptionGroup[FlowrefViolation], FlowrefViolation):
    """All failures of a report: ``exceptions`` holds one `FlowrefViolation` for each. ``except
    FlowrefViolation`` and ``except AssertionError`` catch the group, ``except*`` its members.
    """

    def derive(  # type: ignore[override]  # its members are violations, and it stays one itself
        self, excs: Sequence[Any], /
    ) -> Self:
        """A group of some of the failures."""
        return type(self)(self.message, excs)

    @property
    def text(self) -> str:
        """The first line, then each failure."""
        return "\n".join([self.message, *(str(one) for one in self.exceptions)])


# The public module name, which test runners print.
for _raised in (FlowrefViolation, FlowrefViolations):
    _raised.__module__ = "flowref"


def violation(
    verdict: Verdict,
    statement: str = "",
    remark: str = "",
    recognized: Recognized | None = None,
    again: str = "",
) -> FlowrefViolation:
    """Return one failure as an exception that ends with the command ``again`` to reproduce it."""
    lines = failure(verdict, statement, where=fault(verdict, recognized), commands=False)
    return _exception(verdict, lines, remark, again)


def group(
    failed: Sequence[Verdict],
    problems: Iterable[str],
    statements: Mapping[str, str],
    others: Iterable[Verdict] = (),
    recognized: Mapping[str, Recognized] | None = None,
) -> FlowrefViolations | None:
    """Return all failures, and sentences about targets that cannot be judged, as one exception;
    None if there are none. Explained violations come last, on a line each. ``others``: verdicts
    that are no failures; ``recognized``: what targets were recognized as.
    """
    sentences = [clean(problem) for problem in problems]
    if not failed and not sentences:
        return None
    raised = [FlowrefViolation(sentence) for sentence in sentences]
    holding, symptoms = by_target(others), 0
    for target, verdicts_of_one in by_target(failed).items():
        causes = explained([*verdicts_of_one, *holding.get(target, ())])
        symptoms += len(causes)
        for verdict in sorted(by_size(verdicts_of_one), key=lambda one: one.law in causes):
            if verdict.law in causes:
                line = symptom(verdict, causes[verdict.law])
                raised.append(_exception(verdict, [line], ""))
            else:
                taken = (recognized or {}).get(target)
                raised.append(violation(verdict, statements.get(verdict.law, ""), "", taken))
    return FlowrefViolations(_headline(failed, raised, symptoms), raised)


def _exception(
    verdict: Verdict, lines: list[str], remark: str, again: str = ""
) -> FlowrefViolation:
    if not live(verdict):
        again = again or command("audit", verdict.target, "--laws", verdict.law)
    ending = [
        f"in {target_labels([verdict.target])[verdict.target]}",
        clean(remark),
        again if not live(verdict) else "",
    ]
    lines = [*lines, *(f"  {line}" for line in ending if line)]
    raised = FlowrefViolation("\n".join(wrapped_lines(lines)))
    raised.verdict = verdict
    return raised


def _headline(failed: Sequence[Verdict], raised: Sequence[FlowrefViolation], symptoms: int) -> str:
    problems = len(raised) - len(failed)
    violated = sum(verdict.status is Status.VIOLATED for verdict in failed)
    counts = [
        (violated - symptoms, "violation"),
        (symptoms, "violation that others explain"),
        (len(failed) - violated, "broken check"),
        (problems, "unloadable target"),
    ]
    text = ", ".join(counted(count, noun) for count, noun in counts if count)
    laws = list(dict.fromkeys(one.verdict.law for one in raised if one.verdict))
    more = f" and {len(laws) - NAMED} more" if len(laws) > NAMED else ""
    return f"{text} ({', '.join(laws[:NAMED])}{more})" if laws else text


def counted(count: int, noun: str) -> str:
    """A count with a noun phrase.

    >>> counted(2, "violation that others explain")
    '2 violations that others explain'
    """
    first, space, rest = noun.partition(" that ")
    return f"{count} {first}{'' if count == 1 else 's'}{space}{rest}"
