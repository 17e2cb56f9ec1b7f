"""Markdown sections shared by full and brief reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from flowref.model import PROVED_WHOLE, Standing, Status, Verdict
from flowref.reporting.contents import LawNote
from flowref.reporting.coverage import FEW, put_to_the_test, share, waiting
from flowref.reporting.markup import code, escaped, statement_text
from flowref.reporting.outcomes import ORDER, labels, tally, violations
from flowref.reporting.report import Report
from flowref.reporting.words import reasons_with_laws

SHOWN = 6
QUIET = (
    (Status.ADVICE, "Advice", "Good practice that is not followed; never part of the exit code."),
    (Status.INCONCLUSIVE, "Not decided", "Counted, and never a pass."),
    (Status.NOT_RUN, "Not run", "Pairs that were not started."),
)


def head(report: Report) -> list[str]:
    """The audit: targets, time, versions, and its outcome in one line."""
    environment = report.environment
    verdict = violations(report.verdicts) if report.violations else "No law is violated"
    if report.violations and report.known:
        new = sum(verdict.status is Status.VIOLATED for verdict in report.new_failures)
        verdict += f", {new or 'none'} of them new,"
    versions = ", ".join(
        f"{escaped(name)} {escaped(number)}" for name, number in environment.versions
    )
    date = f", {escaped(environment.started)}" if environment.started else ""
    lines = [
        "# flowref report",
        "",
        f"**{verdict}** in {len(report.targets)} targets and {len(report.laws)} laws: "
        f"{tally(report.verdicts, report.known)}.",
        f"{share(report.verdicts)} that apply were run.",
        "",
        "flowref measures laws of normalizing flows on a component and compares what it finds with",
        "what rounding can explain. A law is a statement about every input; a violation comes with",
        "one input that breaks it.",
        "",
    ]
    if report.omitted is not None:
        lines += [
            "This report is brief: what holds and what does not apply is counted, and not listed.",
            "",
        ]
    if report.shard is not None:
        lines += [
            f"This is shard {report.shard} of an audit: other pairs are in other reports.",
            "",
        ]
    if not report.complete:
        lines += [
            "**This audit was interrupted**: the pairs that it did not reach are listed as not",
            "run.",
            "",
        ]
    if environment.command:
        lines.append(f"- command: {code(environment.command)}")
    return [
        *lines,
        f"- flowref {escaped(environment.flowref)}, profile {environment.profile}, "
        f"seed {environment.seed}, {environment.seconds:.0f} s{date}",
        f"- Python {escaped(environment.python)} on {escaped(environment.platform)}; "
        f"{versions or 'no library'}",
    ]


def problems(report: Report) -> list[str]:
    """The targets that could not be audited, a sentence each."""
    if not report.problems:
        return []
    sentences = [f"- {escaped(problem.message)}" for problem in report.problems]
    return ["## Could not be audited", "", *sentences]


def known_failure_section(report: Report) -> list[str]:
    """The known failures with their standing; empty if there are none."""
    if not report.known:
        return []
    lines = [
        "## Known failures",
        "",
        "Recorded by the maintainers; only what is not KNOWN counts.",
        "",
        "| | law | target | reason | issue | expires | |",
        "|---|---|---|---|---|---|---|",
    ]
    order = [Standing.CHANGED, Standing.EXPIRED, Standing.FIXED, Standing.UNDECIDED, Standing.KNOWN]
    for one in sorted(report.known, key=lambda one: order.index(one.standing)):
        pair = f"{code(one.law)} | {code(one.target)}"
        notes = " | ".join(map(escaped, (one.reason, one.issue, one.expires, one.detail)))
        lines.append(f"| {one.standing} | {pair} | {notes} |")
    return lines


def proved(report: Report) -> list[str]:
    """The proved laws with their number of targets; empty if there are none."""
    laws: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.proof:
            laws.setdefault(verdict.law, []).append(verdict.proof)
    if not laws:
        return []
    rows = [
        f"| {code(law)} | {len(found)} | {found.count(PROVED_WHOLE)} |"
        for law, found in laws.items()
    ]
    return ["## Proved", "", f"| law | targets | {PROVED_WHOLE} |", "|---|---:|---:|", *rows]


def used(report: Report) -> list[str]:
    """The outcomes that occur, in order: the columns of count tables."""
    found = set(labels(report.verdicts))
    return [word for word in ORDER if word in found]


def outcome_count_table(
    first: str, groups: Mapping[str, Sequence[Verdict]], columns: Sequence[str]
) -> list[str]:
    """Return a table of verdicts by outcome for each group, with the number of judged and
    applicable laws; ``first``: heading of the names.
    """
    lines = [
        f"| {first} | checked | {' | '.join(columns)} |",
        "|---|---:|" + "---:|" * len(columns),
    ]
    for name, verdicts in groups.items():
        counts = Counter(labels(verdicts))
        judged, about = put_to_the_test(verdicts)
        cells = " | ".join(str(counts[word] or "") for word in columns)
        lines.append(f"| {code(name)} | {judged} of {about} | {cells} |")
    return lines


def not_tested(report: Report) -> list[str]:
    """The reasons that block laws of each target, with the options that unblock them."""
    lines: list[str] = []
    for target, verdicts in report.by_target().items():
        for one in waiting(verdicts):
            cells = (code(target), escaped(one.reason), str(len(one.laws)), escaped(one.remedy))
            lines.append(f"| {' | '.join(cells)} |")
    if not lines:
        return []
    text = [
        "Laws that apply to a target and were skipped, where one reason",
        f"keeps {FEW} of them or more from it.",
    ]
    table = ["| target | reason | laws | option |", "|---|---|---:|---|", *lines]
    return ["## Skipped", "", *text, "", *table]


def recognition_section(report: Report) -> list[str]:
    """What each target was recognized as, with unusual conventions."""
    lines = []
    for target, one in report.recognized.items():
        how = "; ".join(filter(None, (one.event, *one.conventions, *one.conflicts, *one.data)))
        hints = "; ".join(one.hints)
        lines.append(
            f"| {code(target)} | {escaped(one.kind)} | {escaped(how)} | {escaped(hints)} |"
        )
    table = ["| target | recognized as | how | option |", "|---|---|---|---|", *lines]
    return ["## Recognized as", "", *table] if lines else []


def quiet(report: Report) -> list[list[str]]:
    """Sections of advice, undecided and unrun laws, with their reasons."""
    return [_reason_section(report.verdicts, *kind) for kind in QUIET]


def _reason_section(
    verdicts: Iterable[Verdict], status: Status, title: str, text: str
) -> list[str]:
    groups = reasons_with_laws(verdicts, status)
    if not groups:
        return []
    lines = [f"## {title}", "", text, "", "| pairs | reason | laws |", "|---:|---|---|"]
    for reason, laws in groups:
        distinct = sorted(set(laws))
        more = f" and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
        listed = ", ".join(map(code, distinct[:SHOWN])) + more
        lines.append(f"| {len(laws)} | {escaped(reason)} | {listed} |")
    return lines


def law_section(notes: Sequence[LawNote]) -> list[str]:
    """The statement of each law."""
    if not notes:
        return []
    lines = ["## Laws", "", "| law | statement | force |", "|---|---|---|"]
    return lines + [f"| {code(note.id)} | {_statement(note)} | {note.force} |" for note in notes]


def _statement(note: LawNote) -> str:
    if "$" in note.statement:
        return statement_text(note.statement).replace("|", "\\|")
    return escaped(note.statement)
