"""The command that compares reports: `flowref diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flowref.cli.help import Command
from flowref.cli.parameters import Output


@click.command(
    cls=Command,
    examples=(
        ("flowref diff old.json new.json", "two audits of the same flows"),
        ("flowref diff old.json new.json --rename 'a.py:*=b.py:*'", "a file that moved"),
    ),
)
@click.argument("old_path", metavar="OLD.json")
@click.argument("new_path", metavar="NEW.json")
@click.option(
    "--factor",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="Smaller changes of the margins of violations and advice are ignored.",
)
@click.option(
    "--all-margins",
    is_flag=True,
    help="Also compare the margins of laws that hold.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="A target or law that was renamed; 'OLD*=NEW*' for a prefix.",
)
@click.option(
    "--markdown",
    "markdown_path",
    type=Output(),
    metavar="PATH",
    help="Write the changes as Markdown (- for standard output).",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list every target, and unchanged pairs with other texts or numbers.",
)
def diff(old_path: str, new_path: str, **choices: Any) -> None:
    """Show what changed between two reports: two releases of a library, or two versions of your
    flow.

    Exit codes: 0 nothing changed, 1 something did, 2 a report that cannot be read or a --rename
    that matches nothing.
    """
    from flowref import registry
    from flowref.reporting.changes import change_lines, change_markdown
    from flowref.reporting.files import replace_file
    from flowref.reporting.name_changes import aligned
    from flowref.reporting.report import Report
    from flowref.reporting.report_diff import compare

    markdown_path, verbose = choices["markdown_path"], choices["verbose"]
    old, new = aligned(
        Report.load(Path(old_path)),
        Report.load(Path(new_path)),
        choices["rename"],
        registry.former(),
    )
    comparison = compare(old, new, factor=choices["factor"], all_margins=choices["all_margins"])
    if markdown_path != "-":
        click.echo("\n".join(change_lines(comparison, new_path, verbose=verbose)))
    else:
        click.echo(change_markdown(comparison, verbose=verbose), nl=False)
    if markdown_path not in (None, "-"):
        replace_file(Path(markdown_path), change_markdown(comparison, verbose=verbose))
    sys.exit(1 if comparison else 0)
