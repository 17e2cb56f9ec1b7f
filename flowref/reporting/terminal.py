"""A report on a screen: one line per target, and only failures expand."""

from __future__ import annotations

from collections.abc import Sequence

from flowref.model import KnownFailure, Recognized, Standing, Status, Verdict, identity
from flowref.reporting.causes import by_size, deepest, explained
from flowref.reporting.judged import lines as waiting_lines
from flowref.reporting.judged import share
from flowref.reporting.lines import target_line
from flowref.reporting.outcomes import FAILING, tally
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.reporting.words import examples, failure, reasons, symptom


def target_lines(
    target: str,
    verdicts: Sequence[Verdict],
    statements: dict[str, str],
    recognized: Recognized | None = None,
    *,
    verbosity: int = 0,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """One line about a target, what is unusual about how it was taken, what keeps laws from being
    put to the test, then its failures, of those that are ``known`` a line each, and what was put to
    the test without being decided; ``verbosity`` 1 adds what decided, what was advised, and why laws do
    not apply, -1 leaves the one line.
    """
    if verbosity < 0:
        return [target_line(target, verdicts, recognized, known)]
    verbose = verbosity > 0
    lines = head_lines(target, verdicts, recognized, verbose=verbose, known=known)
    accepted = {one.law for one in known if one.standing is Standing.KNOWN}
    new = [verdict for verdict in verdicts if verdict.law not in accepted]
    lines += [f"  {line}" for line in failing(new, statements)]
    lines += [f"  {known_line(one)}" for one in known]
    quiet = (
        (Status.INCONCLUSIVE, Status.ADVICE, Status.NOT_RUN, Status.NOT_APPLICABLE)
        if verbose
        else (Status.INCONCLUSIVE, Status.NOT_RUN)
    )
    for status in quiet:
        for reason, laws in reasons(verdicts, status):
            listed = ", ".join(laws) if verbose or len(laws) < 4 else f"{len(laws)} laws"
            lines.append(f"  {str(status).lower().replace('_', ' ')}: {listed}: {reason}")
    return lines


def head_lines(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    *,
    verbose: bool = False,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """One line about a target, how it was taken, and what keeps laws from being put to the test."""
    lines = [target_line(target, verdicts, recognized, known)]
    if recognized is not None:
        lines += [f"  {line}" for line in taken(recognized, verbose=verbose)]
    hints = () if recognized is None else recognized.hints
    lines += [f"  {line}" for line in waiting_lines(verdicts, hints)]
    return lines


def failing(verdicts: Sequence[Verdict], statements: dict[str, str]) -> list[str]:
    """The failures of a target: the largest first, and after each what it explains, a line each."""
    lines, causes = [], explained(verdicts)
    for verdict in by_size(verdict for verdict in verdicts if verdict.status in FAILING):
        if verdict.law in causes:
            continue
        lines += failure(verdict, statements.get(verdict.law, ""))
        symptoms = by_size(one for one in verdicts if deepest(one, causes) == verdict.law)
        lines += [f"    {symptom(one, causes[one.law])}" for one in symptoms]
    return lines


def taken(recognized: Recognized, *, verbose: bool = False) -> list[str]:
    """How a target was taken, where that is not plain: a line each."""
    how = [recognized.event, *recognized.conventions]
    lines = [f"as {'; '.join(filter(None, how))}"] if any(how) else []
    lines += [*recognized.conflicts, *recognized.data]
    return [clean(line) for line in (*lines, *(recognized.why if verbose else ()))]


def known_line(one: KnownFailure, *, target: bool = False) -> str:
    """How a known failure stands, on one line; ``target``: with what it is about."""
    name = identity(one.target, one.law)
    pair = f"{clean(one.target)}  {one.law}" if target else one.law
    issue = f"{clean(one.reason)} ({clean(one.issue)})" if one.issue else clean(one.reason)
    return f"{str(one.standing).lower():<9}  {name}  {pair}   {one.detail or issue}"


def summary_lines(report: Report) -> list[str]:
    """The end of an audit: totals, what could not be loaded, and what the exit code means."""
    number = len(report.targets)
    lines = []
    if number or not report.problems:  # of nothing but what could not be loaded, that is said below
        lines.append(
            f"{number} target{'' if number == 1 else 's'}: {share(report.verdicts)}: "
            f"{tally(report.verdicts, report.known)}   "
            f"{examples(report.verdicts)} examples  {report.environment.seconds:.1f}s"
        )
    if report.problems:
        names = ", ".join(clean(problem.spec) for problem in report.problems)
        lines.append(f"{len(report.problems)} could not be audited: {names}")
    lines += [  # of globs, which no target's lines tell
        known_line(one, target=True) for one in report.known if one.target not in report.targets
    ]
    if report.stale:
        count = len(report.stale)
        lines.append(
            f"{count} known failure{'' if count == 1 else 's'} fail{'s' if count == 1 else ''} no "
            "more; flowref baseline prune takes off what is pinned"
        )
    if report.shard is not None:
        lines.append(
            f"this is shard {report.shard}; flowref merge puts the reports of all together"
        )
    elif report.exit_code == 5:
        lines.append("nothing meaningful was checked: no law held and none was violated")
    return lines
