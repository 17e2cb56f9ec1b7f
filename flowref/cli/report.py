"""The command that shows a report again: `flowref report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flowref.cli.formats import format_options, format_requested, printing, write_formats
from flowref.cli.help import Command
from flowref.cli.parameters import quiet_option, verbose_option, verbosity


@click.command(
    cls=Command,
    examples=(
        ("flowref report", "the last audit in this folder, once more"),
        ("flowref report -v", "with advice, and why laws were not decided"),
        ("flowref report --html audit.html", "a page for a browser"),
        ("flowref report old.json --output-format concise", "file:line: law: message"),
    ),
)
@click.argument("path", metavar="[REPORT.json]", required=False)
@format_options
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a report.")
@verbose_option
@quiet_option
def report(path: str | None, schema: bool, **choices: Any) -> None:
    """Show a report again, or write it in other formats; by default that of the last audit in this
    folder. Nothing is measured.

    Exit codes: 0 written, 2 a report that cannot be read or a file that cannot be written.
    """
    from flowref.auditing.journal import last_report
    from flowref.reporting.report import Report

    if schema:
        from flowref.reporting.schema import json_schema

        click.echo(json_schema(), nl=False)
        return
    printing(choices)
    made = Report.load(Path(path)) if path else last_report()
    if format_requested(choices):
        write_formats(made, choices)
    else:
        _show(made, verbosity(choices))


def _show(report: Any, verbosity: int) -> None:
    from flowref.reporting.audit_summary import summary_lines
    from flowref.reporting.terminal import target_lines
    from flowref.reporting.text import clean

    statements = {note.id: note.statement for note in report.laws}
    for target, verdicts in report.by_target().items():
        known = [one for one in report.known if one.target == target]
        recognized = report.recognized.get(target)
        ordered = sorted(verdicts, key=lambda verdict: verdict.law)
        lines = target_lines(
            target, ordered, statements, recognized, verbosity=verbosity, known=known
        )
        click.echo("\n".join(lines))
    for problem in report.problems:
        click.echo(f"flowref: {clean(problem.message)}", err=True)
    click.echo("\n".join(summary_lines(report, verbosity=verbosity, code=0)))
