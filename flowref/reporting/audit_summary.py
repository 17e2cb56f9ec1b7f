"""The end of an audit in a terminal: failures by library and cause, totals, and a sentence. Verbosity -1:
the sentence only; 1: targets also with skipped laws and their reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from flowref.model import PROVED_WHOLE, Standing, Status, Verdict
from flowref.reporting.causes import by_size, by_target, explained
from flowref.reporting.coverage import put_to_the_test
from flowref.reporting.outcomes import (
    FAILING,
    LABELS,
    MINOR,
    SKIPPED,
    STANDINGS,
    outcome_counts,
    tally,
)
from flowref.reporting.report import Report
from flowref.reporting.severity import magnitude
from flowref.reporting.terminal import known_line
from flowref.reporting.text import clean, listing, number_of, opening, shortened, wrapped_lines
from flowref.reporting.words import diagnosis_text, remark

# An audit of more targets repeats its failures at the end.
FEW = 3
# The law on which the likelihood of a map depends.
LOG_DET = "map/log-det"
# The profile with one state of the weights.
QUICK = "quick"
# The most targets of one cause that are named.
NAMED = 3
# Outcomes counted in the closing sentence, besides passed.
BESIDES_PASSED = (MINOR, *STANDINGS, "advice", "inconclusive", "not run", SKIPPED)


def summary_lines(report: Report, *, verbosity: int = 0, code: int | None = None) -> list[str]:
    """Return the end of an audit: the failures again if there are several targets, totals, and a
    sentence. ``code``: the exit code, if options change it.
    """
    last = closing(report, report.exit_code if code is None else code)
    if verbosity < 0:
        return wrapped_lines(last)
    lines = again_lines(report) if len(report.targets) > FEW else []
    if len(report.targets) > 1:
        checks = number_of(put_to_the_test(report.verdicts)[1], "check")
        lines.append(
            f"{number_of(len(report.targets), 'target')}, {checks}: "
            f"{tally(report.verdicts, report.known)}   {report.environment.seconds:.1f} s"
        )
    lines += [  # entries with globs, which belong to no target's lines
        known_line(one, target=True) for one in report.known if one.target not in report.targets
    ]
    if report.stale:
        count = len(report.stale)
        lines.append(
            f"{number_of(count, 'known failure')} no longer fail{'s' if count == 1 else ''}; "
            "flowref baseline prune removes what is pinned"
        )
    if report.shard is not None:
        lines.append(f"this is shard {report.shard}; flowref merge puts all reports together")
    return wrapped_lines([*lines, *last])


def again_lines(report: Report) -> list[str]:
    """The failures that count, by library and cause, the largest first: a line each."""
    accepted = {(one.target, one.law) for one in report.known if one.standing is Standing.KNOWN}
    causes = {target: explained(own) for target, own in by_target(report.verdicts).items()}
    groups: dict[str, dict[str, list[Verdict]]] = {}
    for verdict in by_size(report.with_status(*FAILING)):
        pair = (verdict.target, verdict.law)
        if pair not in accepted and verdict.law not in causes[verdict.target]:
            cause = diagnosis_text(verdict) or f"{verdict.law} {remark(verdict)}"
            groups.setdefault(library(verdict.target), {}).setdefault(cause, []).append(verdict)
    lines = ["Failures, the largest first:"] if groups else []
    for name, by_cause in groups.items():
        lines.append(f"  {clean(name)}")
        lines += [f"    {_cause(own, report)}" for own in by_cause.values()]
    return lines


def _cause(verdicts: Sequence[Verdict], report: Report) -> str:
    """Failures with one cause: laws, size of the largest, explanation, and targets."""
    worst, laws = verdicts[0], dict.fromkeys(one.law for one in verdicts)
    size = f" ({magnitude(worst.size)})" if worst.size is not None else ""
    note = report.note(worst.law)
    why = diagnosis_text(worst) or remark(worst) or (opening(note.statement, 1) if note else "")
    where = listing((f"{component(one.target)} {one.id}" for one in verdicts), NAMED)
    word = "minor" if worst.minor else worst.status
    return f"{word}  {listing(laws, 1)}{size}   {shortened(why, 100)}   [{where}]"


def library(target: str) -> str:
    """Return the library, file or package of a target.

    >>> library("zuko:NSF?features=3"), component("zuko:NSF?features=3")
    ('zuko', 'NSF?features=3')
    """
    return target.partition(":")[0]


def component(target: str) -> str:
    """The part of a target after the colon."""
    return clean(target.partition(":")[2] or target)


def closing(report: Report, code: int) -> list[str]:
    """Return the last lines: log-dets that were not checked, and a sentence with outcome and exit
    code.
    """
    return [*unseen(report.verdicts), _sentence(report, code)]


def proved(verdicts: Iterable[Verdict]) -> str:
    """Return the number of proved checks, as the end of a clause; empty if there are none.

    >>> proved([Verdict("t", "l", Status.HOLDS, proof=PROVED_WHOLE), Verdict("t", "m", Status.HOLDS)])
    ', 1 of them proved for all inputs and all weights'
    """
    held = [verdict for verdict in verdicts if verdict.status is Status.HOLDS]
    found = [verdict.proof for verdict in held if verdict.proof]
    whole, rest = found.count(PROVED_WHOLE), "under the conditions that -v lists"
    if not found:
        return ""
    if len(held) == 1:
        return f", and is proved {PROVED_WHOLE if whole else rest}"
    if whole == len(found):
        return f", {whole} of them proved {PROVED_WHOLE}"
    return f", {len(found)} of them proved, {f'{whole} {PROVED_WHOLE}, the others ' if whole else ''}{rest}"


def unseen(verdicts: Iterable[Verdict]) -> list[str]:
    """Return lines about maps whose log-det was not decided, by reason: their other checks say
    nothing about likelihoods.
    """
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.law == LOG_DET and verdict.status is Status.INCONCLUSIVE:
            reasons.setdefault(clean(verdict.reason), []).append(component(verdict.target))
    if len(reasons) > NAMED:
        named = listing(itertools.chain.from_iterable(reasons.values()), NAMED)
        return [f"The log-dets of {named} were not checked; the lines of each say why."]
    return [
        f"The log-det of {listing(targets, NAMED)} was not checked: {reason}."
        for reason, targets in reasons.items()
    ]


def _sentence(report: Report, code: int) -> str:
    counts = outcome_counts(report.verdicts, report.known)
    judged, _ = put_to_the_test(report.verdicts)
    failed = sum(counts[LABELS[status]] for status in FAILING)
    ending = f" (exit code {code})." if code else "."
    parts = []
    if failed:
        parts.append(number_of(failed, "new failure" if report.known else "failure"))
    if report.problems:
        parts.append(f"{number_of(len(report.problems), 'target')} could not be audited")
    if not report.complete:
        parts.append("the audit was interrupted")
    if parts:
        text = ", and ".join(parts)
        return f"{text[0].upper()}{text[1:]}{ending}"
    if not judged:
        return f"Nothing meaningful was checked: no law held and none was violated{ending}"
    passed = f"{number_of(counts['passed'], 'check')} passed"
    if counts["passed"] != 1:
        passed = f"All {passed}" if counts["passed"] else "No failure"
    others = [f"{counts[word]} {word}" for word in BESIDES_PASSED if counts[word]]
    more = f"; {', '.join(others)}" if others else ""
    short = (
        ""
        if report.environment.profile != QUICK
        else f" in the {QUICK} profile, at one state of the weights"
    )
    return f"{passed}{short}{proved(report.verdicts)}{more}{ending}"
