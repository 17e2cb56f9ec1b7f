"""The formats that a report can be written in: options that `audit` and `report` share.

Another format is another row of the table.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowref.cli.parameters import Output

if TYPE_CHECKING:
    from flowref.reporting.report import Report

# Where a job of GitHub's says that its summary is to be appended.
SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class Format:
    """One format: the name of its option, what is written, and the function from a report to text,
    as "module:name". ``brief``: whether --brief shortens it.
    """

    name: str
    title: str
    maker: str
    brief: bool = False

    @property
    def key(self) -> str:
        """The parameter that holds the path."""
        return f"{self.name}_path"

    def text(self, report: Report) -> str:
        """A report in this format."""
        module, _, name = self.maker.partition(":")
        made: str = getattr(importlib.import_module(module), name)(report)
        return made


FORMATS = (
    Format("json", "the report as JSON", "flowref.reporting.report:to_json", brief=True),
    Format("markdown", "the report as Markdown", "flowref.reporting.markdown:to_markdown", True),
    Format("html", "a page for a browser: one file that loads nothing", "flowref.scorecard:page"),
    Format("junit", "JUnit XML", "flowref.reporting.formats.junit:to_junit"),
    Format("sarif", "SARIF 2.1.0", "flowref.reporting.formats.sarif:to_sarif"),
    Format("summary", "a short summary as Markdown", "flowref.reporting.formats.github:to_summary"),
    Format("badge", "JSON for a badge of shields.io", "flowref.reporting.formats.badge:to_badge"),
)


def format_options(command: Any) -> Any:
    """Give a command an option for each format, and --github."""
    command = click.option(
        "--github",
        is_flag=True,
        help=f"Mark failures at their lines, and append the summary to ${SUMMARY}.",
    )(command)
    for one in reversed(FORMATS):
        command = click.option(
            f"--{one.name}",
            one.key,
            type=Output(),
            metavar="PATH",
            help=f"Write {one.title} (- for standard output).",
        )(command)
    return command


def printing(choices: Mapping[str, Any]) -> bool:
    """Whether standard output is taken by a format or by events.

    Raises: `click.UsageError` where two want it.
    """
    names = [f"--{one.name} -" for one in FORMATS if choices[one.key] == "-"]
    names += ["--events -"] if choices.get("events") in ("-", 1) else []
    if len(names) > 1:
        raise click.UsageError(
            f"{' and '.join(names)} would be mixed on standard output; give all but one a file"
        )
    return bool(names)


def write_formats(report: Report, choices: Mapping[str, Any]) -> None:
    """Write every format that was asked for; one that cannot be written keeps no other from it.

    Raises: `ReportError` for the first that could not be.
    """
    from flowref.model import ReportError

    refused: list[ReportError] = []
    for write in _writers(report, choices):
        try:
            write()
        except ReportError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def _writers(report: Report, choices: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    for one in FORMATS:
        if choices[one.key]:
            short = report.brief() if one.brief and choices.get("brief") else report
            yield functools.partial(_put, choices[one.key], one, short)
    if choices["github"]:
        yield functools.partial(_mark, report, err=printing(choices))
        if os.environ.get(SUMMARY):
            yield functools.partial(_append, report, Path(os.environ[SUMMARY]))


def _put(path: str, form: Format, report: Report) -> None:
    from flowref.reporting.files import write

    text = form.text(report)
    if path == "-":
        click.echo(text, nl=False)
    else:
        write(Path(path), text)


def _mark(report: Report, *, err: bool) -> None:
    from flowref.reporting.formats.github import to_annotations

    click.echo(to_annotations(report), nl=False, err=err)


def _append(report: Report, path: Path) -> None:
    """Add to the summary of a job what other steps may have begun."""
    from flowref.model import ReportError
    from flowref.reporting.formats.github import to_summary

    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(to_summary(report))
    except OSError as error:
        raise ReportError(
            f"{path}, which {SUMMARY} names, cannot be written: {error.strerror}"
        ) from None
