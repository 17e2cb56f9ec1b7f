"""The environment of flowref: `flowref doctor`."""

from __future__ import annotations

import sys

import click

from flowref.cli.help import Command


@click.command(cls=Command, examples=(("flowref doctor", "versions, libraries, memory"),))
def doctor() -> None:
    """Show the environment of flowref: versions, libraries, CPUs and memory, with problems.

    Exit codes: 0 no problem, 1 something keeps flowref from working.
    """
    from flowref.auditing.environment import environment_items

    found = list(environment_items())
    for part in found:
        click.echo(f"{part.name:<12} {part.said}")
    click.echo()
    amiss = [part.trouble for part in found if part.trouble]
    for trouble in amiss:
        click.echo(click.style(trouble, fg="red"))
    click.echo(f"{len(amiss)} to be fixed." if amiss else "No problems found.")
    sys.exit(1 if amiss else 0)
