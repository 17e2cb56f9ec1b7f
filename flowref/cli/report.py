"""The command that shows a report again, in any format: `flowref report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flowref.cli.formats import FORMATS, format_options, printing, write_formats


@click.command()
@click.argument("path", metavar="[REPORT.json]", required=False)
@format_options
@click.option(
    "--brief",
    is_flag=True,
    help="In JSON and Markdown count what holds or does not apply, without numbers and reasons.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Say why laws were not decided or do not apply."
)
def report(path: str | None, **choices: Any) -> None:
    """Show a report again, or write it in other formats; by default that of the last audit in this
    folder. Nothing is measured.

    Exit codes: 0 written, 2 a report that cannot be read or a file that cannot be written.
    """
    from flowref.auditing.journal import last_report
    from flowref.reporting.report import Report

    printing(choices)
    made = Report.load(Path(path)) if path else last_report()
    if any(choices[one.key] for one in FORMATS) or choices["github"]:
        write_formats(made, choices)
    else:
        _show(made, verbose=choices["verbose"])


def _show(report: Any, *, verbose: bool) -> None:
    """What the audit said on the screen."""
    from flowref.reporting.terminal import summary_lines, target_lines
    from flowref.reporting.text import clean

    statements = {note.id: note.statement for note in report.laws}
    for target, verdicts in report.by_target().items():
        known = [one for one in report.known if one.target == target]
        recognized = report.recognized.get(target)
        ordered = sorted(verdicts, key=lambda verdict: verdict.law)
        lines = target_lines(target, ordered, statements, recognized, verbose=verbose, known=known)
        click.echo("\n".join(lines))
    for problem in report.problems:
        click.echo(f"cannot be audited: {clean(problem.message)}", err=True)
    click.echo("\n".join(summary_lines(report)))
