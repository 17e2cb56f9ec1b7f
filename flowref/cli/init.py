"""The command that sets up a project: `flowref init`."""

from __future__ import annotations

from pathlib import Path

import click

from flowref.cli.completion import Specs
from flowref.cli.help import Command


@click.command(
    cls=Command,
    examples=(
        ("flowref init", "for the flows that are found in this folder"),
        ("flowref init 'mine/flows.py:Flow?dim=3'", "for these"),
        ("flowref init --dry-run", "show what would be written"),
    ),
)
@click.argument("specs", nargs=-1, type=Specs())
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def init(specs: tuple[str, ...], dry_run: bool) -> None:
    """Write the files with which a project is audited: targets in pyproject.toml, a file of known
    failures and a GitHub workflow. Existing files are not overwritten.
    """
    from flowref.baseline import start

    steps = start.file_edits(specs, Path())
    for step in steps:
        if step.left:
            click.echo(f"{step.path} stays as it is: {step.left}")
            continue
        if not dry_run:
            start.write_file_edit(step)
        verb = "would be " * dry_run + ("added to" if step.added else "written")
        click.echo(f"{step.path} {verb}:" if not step.added else f"{verb} {step.path}:")
        click.echo("".join(f"    {line}".rstrip() + "\n" for line in step.text.splitlines()))
        for line in step.unlisted:
            click.echo(f"left out: {line}")
        if step.unlisted:
            click.echo()
    if not dry_run and any(not step.left for step in steps):
        click.echo(
            "Next: `flowref audit`, and `flowref baseline update` for failures to fix later."
        )
