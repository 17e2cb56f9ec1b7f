"""The command that combines reports: `flowref merge`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flowref.cli.exit_code import exit_code, exit_options
from flowref.cli.formats import format_options, printing, write_formats
from flowref.cli.help import Command
from flowref.cli.parameters import Output, quiet_option


@click.command(
    cls=Command,
    examples=(
        ("flowref merge 1.json 2.json -o all.json", "one report of the parts"),
        ("flowref merge *.json --html all.html", "a page for a browser"),
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="A.json B.json ...")
@click.option(
    "-o",
    "--output",
    type=Output(),
    metavar="PATH",
    help="Write the merged report as JSON (- for standard output).",
)
@format_options
@exit_options
@quiet_option
def merge(
    paths: tuple[str, ...],
    output: str | None,
    quiet: bool,
    strict: bool,
    exit_zero: bool,
    **choices: Any,
) -> None:
    """Combine the reports on the shards of an audit, or on different targets.

    They must have been made alike: the same version of flowref and of the libraries, profile and
    seed. If two have a verdict on the same pair, it must be the same.

    Exit codes: those of the undivided audit; 2 if they do not belong together.
    """
    from flowref.auditing.report_merge import merge as merged
    from flowref.reporting.audit_summary import summary_lines
    from flowref.reporting.report import Report

    if output and choices["json_path"]:
        raise click.UsageError("-o and --json name the same file twice; give one")
    choices["json_path"] = output or choices["json_path"]
    taken = printing(choices)
    report = merged([(path, Report.load(Path(path))) for path in paths])
    code = exit_code(report, strict=strict, exit_zero=exit_zero)
    for line in summary_lines(report, verbosity=-1 if quiet else 0, code=code):
        click.echo(line, err=taken)
    write_formats(report, choices)
    sys.exit(code)
