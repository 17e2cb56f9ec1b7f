"""The exit code of a report, as the options --strict and --exit-zero have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flowref.cli.interruption import INTERRUPTED

if TYPE_CHECKING:
    from flowref.reporting.report import Report


def exit_options(command: Any) -> Any:
    """Give a command --strict and --exit-zero."""
    command = click.option(
        "--exit-zero",
        is_flag=True,
        help="Exit 0 whatever was found; 2 where a target could not be audited.",
    )(command)
    return click.option(
        "--strict",
        is_flag=True,
        help="Minor violations count, and a known failure that no longer fails exits 4.",
    )(command)


def exit_code(report: Report, *, strict: bool, exit_zero: bool) -> int:
    """With which code the program ends."""
    from flowref.reporting.report import NOTHING, OK, STALE, USAGE, VIOLATION

    if not report.complete:
        return INTERRUPTED
    code = report.exit_code
    if strict and code != USAGE and any(not report.accepts(one) for one in report.minor):
        code = VIOLATION
    if strict and report.stale and code in (OK, NOTHING):
        code = STALE
    if report.shard is not None and code == NOTHING:  # which the other parts decide
        code = OK
    return OK if exit_zero and code != USAGE else code
