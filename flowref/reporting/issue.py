"""A violation as an issue for the tracker of a library, in Markdown."""

from __future__ import annotations

from flowref.model import Verdict
from flowref.reporting.markup import code, escaped, statement_text
from flowref.reporting.numbers import value_in_brief
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.reporting.words import (
    again,
    circumstances,
    evidence_text,
    explanations,
    inputs,
    off_by,
    remark,
)


def issue(report: Report, verdict: Verdict, program: str = "", patch: str = "") -> str:
    """Return the text of an issue: law, observed and expected numbers, input, versions, and how to
    reproduce it. Text of the target is escaped. ``program``: a reproduction script; ``patch``: a
    diff with which the law is proved.
    """
    note, case = report.note(verdict.law), verdict.counterexample
    lines = [
        f"### {code(verdict.target)}: {code(verdict.law)} is {str(verdict.status).lower()}",
        "",
    ]
    if note is not None:
        lines += [f"Expected: {statement_text(note.statement)}", ""]
    if verdict.evidence is not None and (size := off_by(verdict.evidence)):
        lines += [f"Observed: {size}.", ""]
    for name, text in explanations(verdict):
        lines += [f"{name.capitalize()}: {escaped(text)}", ""]
    if text := remark(verdict):
        lines += [escaped(text), ""]
    if case is not None:
        for name, value in case.observed.items():
            lines.append(f"- {escaped(name)}: {code(value_in_brief(value))}")
        lines.append(f"- input: {code(inputs(case))}")
        lines.append(f"- circumstances: {escaped(circumstances(case, verdict.part))}")
        lines.append("")
    versions = ", ".join(
        f"{clean(name)} {clean(number)}" for name, number in report.environment.versions
    )
    lines.append(
        f"Versions: {escaped(versions or 'not recorded')}; Python {escaped(report.environment.python)}."
    )
    if program:
        lines += ["", "To reproduce (it ends with exit code 1 while the error is there):", ""]
        lines += _fenced("python", program)
    elif commands := again(verdict, recognized=report.recognized.get(verdict.target)):
        lines += ["", "To see it again:", "", *(f"    {clean(command)}" for command in commands)]
    elif seen := evidence_text(verdict):
        lines += ["", escaped(seen)]
    if patch:
        text = f"With this patch {code(verdict.law)} is proved; the map does not change:"
        lines += ["", "#### Patch", "", text, "", *_fenced("diff", patch)]
    return "\n".join(lines) + "\n"


def _fenced(language: str, text: str) -> list[str]:
    fence = "~~~" if "```" in text else "```"
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]
