"""The exit code of a report, under --strict and --exit-zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flowref.cli.interruption import INTERRUPTED

if TYPE_CHECKING:
    from flowref.reporting.report import Report


def exit_options(command: Any) -> Any:
    """Add --strict and --exit-zero to a command."""
    command = click.option(
        "--exit-zero",
        is_flag=True,
        help="Exit 0 whatever was found, but 2 if a target could not be audited.",
    )(command)
    return click.option(
        "--strict",
        is_flag=True,
        help="Count minor violations, and exit 4 if a known failure no longer fails.",
    )(command)


def exit_code(report: Report, *, strict: bool, exit_zero: bool) -> int:
    """The exit code of the program."""
    from flowref.reporting.report import NOTHING, OK, STALE, USAGE, VIOLATION

    if not report.complete:
        return INTERRUPTED
    code = report.exit_code
    if strict and code != USAGE and any(not report.accepts(one) for one in report.minor):
        code = VIOLATION
    if strict and report.stale and code in (OK, NOTHING):
        code = STALE
    if report.shard is not None and code == NOTHING:  # the other parts decide
        code = OK
    return OK if exit_zero and code != USAGE else code
