"""A report as Markdown, for a reader who has never seen flowref."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowref.model import Status, Verdict
from flowref.reporting.contents import LawNote
from flowref.reporting.outcomes import FAILING, LABELS, tally
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.reporting.words import again, circumstances, inputs, measured, reasons, remark

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~$#@&<>]|(?<=:)//|(?<=www)\.)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "//": "\\/\\/"}


def escaped(text: str) -> str:
    r"""Text from a target as literal Markdown within a line: no markup, no HTML, no table cell, no
    link, one line.

    >>> escaped("<b>a|b</b> *c* https://d")
    '&lt;b&gt;a\\|b&lt;/b&gt; \\*c\\* https:\\/\\/d'
    """
    return _literal(clean(text))


def _literal(text: str) -> str:
    return _SPECIAL.sub(lambda found: _HTML.get(found[1], "\\" + found[1]), text)


def code(text: str) -> str:
    """Text as inline code, whatever backticks and bars it holds.

    >>> code("a`b")
    '``a`b``'
    """
    flat = clean(text).replace("|", "\\|")  # a bar would end a table cell even inside code
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def block(lines: Iterable[str]) -> list[str]:
    """Lines as a fenced code block that their content cannot close."""
    content = [clean(line) for line in lines]
    longest = max((len(run) for line in content for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *content, fence]


def to_markdown(report: Report) -> str:
    """The whole report: verdict, table of targets, failures in words, what was not decided and why,
    the laws.
    """
    sections = [
        _head(report),
        _problems(report),
        _table(report),
        _failures(report),
        _quiet(
            report, Status.ADVICE, "Advice", "Measured and not followed; nobody is accused of it."
        ),
        _quiet(report, Status.INCONCLUSIVE, "Not decided", "Counted, and never a pass."),
        _quiet(report, Status.NOT_RUN, "Not run", "Pairs that were not started."),
        _laws(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _head(report: Report) -> list[str]:
    environment = report.environment
    count = len(report.violations)
    verdict = "No law is violated" if not count else f"{count} violation{'' if count == 1 else 's'}"
    versions = ", ".join(
        f"{escaped(name)} {escaped(number)}" for name, number in environment.versions
    )
    lines = [
        "# flowref report",
        "",
        f"**{verdict}** in {len(report.targets)} targets and {len(report.laws)} laws: "
        f"{tally(report.verdicts)}.",
        "",
        "flowref measures laws of normalizing flows on a component and compares what it finds "
        "with what rounding can",
        "explain. A law is a statement about every input; a violation comes with one input that "
        "breaks it.",
        "",
    ]
    if not report.complete:
        lines += [
            "**This audit was interrupted**: the pairs that it did not reach are listed as not "
            "run.",
            "",
        ]
    if environment.command:
        lines.append(f"- command: {code(environment.command)}")
    return [
        *lines,
        f"- flowref {escaped(environment.flowref)}, profile {environment.profile}, seed "
        f"{environment.seed}, "
        f"{environment.seconds:.0f} "
        f"s{', ' + escaped(environment.started) if environment.started else ''}",
        f"- Python {escaped(environment.python)} on {escaped(environment.platform)}; "
        f"{versions or 'no library'}",
    ]


def _problems(report: Report) -> list[str]:
    if not report.problems:
        return []
    return [
        "## Could not be audited",
        "",
        *(f"- {escaped(problem.message)}" for problem in report.problems),
    ]


def _table(report: Report) -> list[str]:
    if not report.targets:
        return []
    used = [(status, label) for status, label in LABELS if report.counts[status]]
    lines = [
        "## Targets",
        "",
        "| target | " + " | ".join(label for _, label in used) + " |",
        "|---|" + "---:|" * len(used),
    ]
    for target, verdicts in report.by_target().items():
        counts = [sum(verdict.status is status for verdict in verdicts) for status, _ in used]
        lines.append(
            f"| {code(target)} | " + " | ".join(str(count or "") for count in counts) + " |"
        )
    return lines


def _failures(report: Report) -> list[str]:
    lines: list[str] = []
    for verdict in report.with_status(*FAILING):
        lines += ["", *_failure(verdict, report.note(verdict.law))]
    return ["## Failures", *lines] if lines else []


def _failure(verdict: Verdict, note: LawNote | None) -> list[str]:
    name = f"{verdict.id} " if verdict.status is Status.VIOLATED else ""
    lines = [f"### {name}{verdict.status}: {code(verdict.law)} in {code(verdict.target)}", ""]
    if note is not None:
        lines += [f"The law: {note_text(note.statement)}", ""]
    if seen := measured(verdict):
        lines.append(f"- seen: {escaped(seen)}")
    if said := remark(verdict):
        lines.append(f"- remark: {escaped(said)}")
    if (case := verdict.counterexample) is not None:
        lines.append(f"- input: {code(inputs(case))}")
        lines.append(f"- circumstances: {escaped(circumstances(case, verdict.part))}")
    if commands := again(verdict):
        lines += ["", "See it again:", "", *block(commands)]
    else:
        lines += [
            "",
            "This is a live object of the process that was audited; it cannot be replayed from "
            "here.",
        ]
    return lines


def note_text(statement: str) -> str:
    """A law's own statement: prose with mathematics between dollars, which are kept."""
    pieces = clean(statement).split("$")
    return "$".join(piece if place % 2 else _literal(piece) for place, piece in enumerate(pieces))


def _quiet(report: Report, status: Status, title: str, text: str) -> list[str]:
    found = reasons(report.verdicts, status)
    if not found:
        return []
    lines = [f"## {title}", "", text, "", "| pairs | reason | laws |", "|---:|---|---|"]
    for reason, laws in found:
        distinct = sorted(set(laws))
        listed = ", ".join(map(code, distinct[:6])) + (
            f" and {len(distinct) - 6} more" if len(distinct) > 6 else ""
        )
        lines.append(f"| {len(laws)} | {escaped(reason)} | {listed} |")
    return lines


def _laws(report: Report) -> list[str]:
    if not report.laws:
        return []
    lines = ["## Laws", "", "| law | statement | force |", "|---|---|---|"]
    for note in report.laws:
        statement = (
            note_text(note.statement).replace("|", "\\|")
            if "$" in note.statement
            else escaped(note.statement)
        )
        lines.append(f"| {code(note.id)} | {statement} | {note.force} |")
    return lines
