"""The commands about known failures: `flowref baseline update`, `check` and `prune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowref.cli.help import Command, Group

if TYPE_CHECKING:
    from flowref.baseline.entry import Baseline, Entry
    from flowref.model import KnownFailure

file_option = click.option(
    "--baseline",
    "path",
    metavar="FILE",
    help="The file of known failures.  [default: flowref-baseline.toml]",
)


@click.group(
    cls=Group,
    titles={
        "Commands": {
            "update": "Record what fails now.",
            "check": "Measure the recorded cases again, without searching.",
            "prune": "Remove what no longer fails.",
        }
    },
    examples=(
        ("flowref audit mylib", "measure"),
        ("flowref baseline update", "record what fails in flowref-baseline.toml"),
        ("flowref audit mylib", "from now on, only new failures count"),
    ),
)
def baseline() -> None:
    """Known failures: adopt flowref today, and fail only on new ones."""


@baseline.command(
    cls=Command,
    examples=(
        ("flowref baseline update", "record all that fails now"),
        ("flowref baseline update K7Q2 --reason 'fixed in 1.2'", "one failure"),
    ),
)
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option(
    "--report",
    "report_path",
    metavar="PATH",
    help="A report file; by default that of the last audit in this folder.",
)
@click.option("--reason", default="", help="Why these fail and are accepted.")
@click.option("--issue", default="", metavar="URL", help="Where that is tracked.")
@click.option(
    "--expires",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="The last day on which they are accepted.",
)
@file_option
def update(names: tuple[str, ...], path: str | None, **choices: Any) -> None:
    """Record the failures of a report: all, or those of the short names ID and the ones they
    explain. Existing entries keep reason and issue; if they changed, their case is recorded again.
    """
    from flowref.auditing.journal import last_report
    from flowref.baseline.baseline_file import known_failures_text, updated
    from flowref.baseline.baseline_parser import FILE, load_baseline
    from flowref.reporting.files import replace_file
    from flowref.reporting.report import Report

    report_path, expires = choices["report_path"], choices["expires"]
    file = Path(path or FILE)
    known = load_baseline(file, lenient=True)
    result = updated(
        known,
        Report.load(Path(report_path)) if report_path else last_report(),
        names,
        reason=choices["reason"],
        issue=choices["issue"],
        expires=None if expires is None else expires.date(),
    )
    replace_file(file, known_failures_text(result.baseline))
    counts = (
        (result.added, "added"),
        (result.renewed, "recorded again"),
        (result.kept, "unchanged"),
    )
    listed = ", ".join(f"{len(group)} {word}" for group, word in counts if group)
    click.echo(f"{file}: {listed or 'nothing fails in this report'}")
    if result.along:
        explained = ", ".join(f"{verdict.id} {verdict.law}" for verdict in result.along)
        click.echo(f"with the failures that these explain: {explained}")
    if result.live:
        click.echo(
            f"{len(result.live)} left out: live objects of the audited process, which no other can load",
            err=True,
        )
    for entry in result.expired:
        click.echo(
            f"{entry.where}: {entry.law} in {entry.target} expired on {entry.expires}; it counts as "
            "new until --expires gives another date",
            err=True,
        )


@baseline.command(
    cls=Command, examples=(("flowref baseline check", "measure the recorded cases again"),)
)
@click.option("--strict", is_flag=True, help="Exit 4 if a known failure no longer fails.")
@file_option
def check(strict: bool, path: str | None) -> None:
    """Measure every pinned case again, without searching: KNOWN, FIXED, CHANGED or EXPIRED.

    Exit codes: 0 all fail as recorded, or no longer fail, 1 one fails in another way or has
    expired, 2 entries that cannot be read or match nothing, 4 one no longer fails, under --strict.
    """
    from flowref.model import Standing
    from flowref.reporting.report import OK, STALE, VIOLATION

    standings = {one.standing for _, one in _echo_known_failures(_vetted(path))}
    if standings & {Standing.CHANGED, Standing.EXPIRED}:
        sys.exit(VIOLATION)
    sys.exit(STALE if strict and Standing.FIXED in standings else OK)


@baseline.command(cls=Command, examples=(("flowref baseline prune", "drop what no longer fails"),))
@file_option
def prune(path: str | None) -> None:
    """Remove every entry whose pinned case passes now; those of pyproject.toml are only listed."""
    from flowref.baseline.baseline_file import known_failures_text
    from flowref.baseline.baseline_parser import FILE
    from flowref.model import Standing
    from flowref.reporting.files import replace_file

    known = _vetted(path)
    fixed = [entry for entry, one in _echo_known_failures(known) if one.standing is Standing.FIXED]
    gone = [entry for entry in fixed if entry in known.recorded]
    if gone:
        replace_file(Path(path or FILE), known_failures_text(known.without(gone)))
    click.echo(f"{len(gone)} removed, {len(known.entries) - len(gone)} left")
    for entry in fixed:
        if entry not in gone:
            click.echo(f"{entry.where}: {entry.law} in {entry.target} is fixed; remove it by hand")


def _vetted(path: str | None) -> Baseline:
    """The known failures of this folder. Raises: `BaselineError` if one matches nothing."""
    from flowref.baseline.baseline_parser import load_baseline
    from flowref.baseline.entry_targets import vet_baseline

    known = load_baseline(Path(path) if path else None)
    vet_baseline(known, (), everywhere=True)
    if not known.entries:
        click.echo("no failure is known here; `flowref baseline update` records some")
    return known


def _echo_known_failures(known: Baseline) -> list[tuple[Entry, KnownFailure]]:
    """The known failures with their standing, printed as they are measured."""
    from flowref.auditing.replays import standings
    from flowref.reporting.terminal import known_line

    measured = []
    for entry, one in standings(known):
        click.echo(known_line(one, target=True))
        measured.append((entry, one))
    return measured
