"""A report in a terminal: a line for each target, expanded by its failures, and the end of an
audit. Verbosity -1: only target lines and the closing sentence; 1: also skipped laws with reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flowref.model import (
    PROVED_WHOLE,
    KnownFailure,
    Recognized,
    Standing,
    Status,
    Verdict,
    pair_id,
)
from flowref.reporting.causes import Cause, by_size, by_target, deepest, explained
from flowref.reporting.coverage import put_to_the_test, waiting
from flowref.reporting.coverage import skipped_check_lines as skipped_lines
from flowref.reporting.faults import fault
from flowref.reporting.lines import target_line
from flowref.reporting.outcomes import (
    FAILING,
    LABELS,
    MINOR,
    SKIPPED,
    STANDINGS,
    outcome_counts,
    tally,
)
from flowref.reporting.severity import magnitude
from flowref.reporting.text import clean, listing, number_of, opening, shortened, wrapped_lines
from flowref.reporting.words import (
    advice,
    diagnosis_text,
    failure,
    minor,
    reasons_with_laws,
    remark,
    symptoms,
)

if TYPE_CHECKING:
    from flowref.reporting.report import Report

# An audit of more targets repeats its failures at the end.
FEW = 3
# The law on which the likelihood of a map depends.
LOG_DET = "map/log-det"
# The profile with one state of the weights.
QUICK = "quick"
# The most targets of one cause, and laws of one reason, that are named.
NAMED = 3
# Outcomes counted in the closing sentence, besides passed.
ASIDE = (MINOR, *STANDINGS, "advice", "inconclusive", "not run", SKIPPED)


def target_lines(
    target: str,
    verdicts: Sequence[Verdict],
    statements: Mapping[str, str],
    recognized: Recognized | None = None,
    *,
    verbosity: int = 0,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """Return the lines of a target, wrapped to the terminal: summary, unusual conventions,
    failures, ``known`` failures, advice, and undecided laws.
    """
    if verbosity < 0:
        return [target_line(target, verdicts, recognized, known)]
    verbose = verbosity > 0
    lines = head_lines(target, verdicts, recognized, verbose=verbose, known=known)
    accepted = {one.law for one in known if one.standing is Standing.KNOWN}
    new = [verdict for verdict in verdicts if verdict.law not in accepted]
    more = failing(new, statements, recognized, verbose=verbose)
    more += [known_line(one) for one in known]
    more += [advice(one) for one in verdicts if one.status is Status.ADVICE]
    for status in (Status.INCONCLUSIVE, Status.NOT_RUN):
        word = str(status).lower().replace("_", " ")
        for reason, laws in reasons_with_laws(verdicts, status):
            more.append(f"{word}: {_law_list_text(laws, verbose=verbose)}: {reason}")
    more += list(_sections(verdicts, recognized)) if verbose else []
    return wrapped_lines([*lines, *(f"  {line}" for line in more)])


def head_lines(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    *,
    verbose: bool = False,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """Return the summary line of a target, its unusual conventions, and what blocks laws."""
    lines = [target_line(target, verdicts, recognized, known)]
    if recognized is not None:
        lines += [f"  {line}" for line in recognition_lines(recognized)]
    if not verbose:
        hints = () if recognized is None else recognized.hints
        lines += [f"  {line}" for line in skipped_lines(verdicts, hints)]
    return wrapped_lines(lines)


def failing(
    verdicts: Sequence[Verdict],
    statements: Mapping[str, str],
    recognized: Recognized | None = None,
    *,
    verbose: bool = False,
) -> list[str]:
    """Return the failures of a target, the gravest first, each followed by the ones it explains;
    minor ones last.
    """
    lines, causes = [], explained(verdicts)
    own = [one for one in verdicts if one.status in FAILING and one.law not in causes]
    for verdict in by_size(one for one in own if not one.minor):
        where = fault(verdict, recognized)
        statement = statements.get(verdict.law, "")
        lines += failure(verdict, statement, where=where, recognized=recognized, verbose=verbose)
        lines += _explains(verdict, verdicts, causes)
    for verdict in (one for one in own if one.minor):
        lines += [minor(verdict), *_explains(verdict, verdicts, causes)]
    return lines


def _explains(
    cause: Verdict, verdicts: Sequence[Verdict], causes: Mapping[str, Cause]
) -> list[str]:
    found = by_size(one for one in verdicts if deepest(one, causes) == cause.law)
    return [f"  {line}" for line in symptoms(found, causes)]


def _sections(verdicts: Sequence[Verdict], recognized: Recognized | None) -> Iterator[str]:
    """Proved, skipped and inapplicable laws, and the evidence of recognition: a title and a line
    for each reason.
    """
    proved: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.proof:
            proved.setdefault(clean(verdict.proof), []).append(verdict.law)
    if proved:
        yield f"Proved ({sum(map(len, proved.values()))}):"
        yield from (f"  {', '.join(laws)}: {words}" for words, laws in proved.items())
    skipped = waiting(verdicts, 1)
    if skipped:
        yield f"Skipped ({sum(len(one.laws) for one in skipped)}):"
        yield from (f"  {one.line}: {_law_list_text(one.laws, verbose=True)}" for one in skipped)
    elsewhere = [v for v in verdicts if v.status is Status.NOT_APPLICABLE and not v.blocked]
    if elsewhere:
        yield f"Not applicable ({len(elsewhere)}):"
        groups = reasons_with_laws(elsewhere, Status.NOT_APPLICABLE)
        few = sum(len(laws) for _, laws in groups if len(laws) < FEW)
        yield from (f"  {len(laws)}: {reason}" for reason, laws in groups if len(laws) >= FEW)
        if few:
            yield f"  {few}: other reasons (flowref laws --for SPEC lists them)"
    if recognized is not None and (recognized.why or recognized.hints):
        yield "Recognized by:"
        yield from (f"  {clean(line)}" for line in (*recognized.why, *recognized.hints))


def _law_list_text(laws: Sequence[str], *, verbose: bool) -> str:
    return ", ".join(laws) if verbose or len(laws) <= NAMED else f"{len(laws)} laws"


def recognition_lines(recognized: Recognized) -> list[str]:
    """Unusual conventions of a target, a line each."""
    lines = [recognized.event] if recognized.event else []
    lines += [f"read as: {'; '.join(recognized.conventions)}"] if recognized.conventions else []
    return [clean(line) for line in (*lines, *recognized.conflicts, *recognized.data)]


def known_line(one: KnownFailure, *, target: bool = False) -> str:
    """A known failure with its standing, on one line; ``target``: with target and law."""
    name = pair_id(one.target, one.law)
    pair = f"{clean(one.target)}  {one.law}" if target else one.law
    issue = f"{clean(one.reason)} ({clean(one.issue)})" if one.issue else clean(one.reason)
    return f"{str(one.standing).lower():<9}  {name}  {pair}   {one.detail or issue}"


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
    aside = [f"{counts[word]} {word}" for word in ASIDE if counts[word]]
    more = f"; {', '.join(aside)}" if aside else ""
    short = (
        ""
        if report.environment.profile != QUICK
        else f" in the {QUICK} profile, at one state of the weights"
    )
    return f"{passed}{short}{proved(report.verdicts)}{more}{ending}"
