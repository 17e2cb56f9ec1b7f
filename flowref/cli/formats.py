"""The formats of a report: options shared by `audit`, `report` and `merge`. A further format is a
row of the table.
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

# Environment variable with the path of a GitHub job's summary.
SUMMARY = "GITHUB_STEP_SUMMARY"
FULL, CONCISE, GITHUB = "full", "concise", "github"


@dataclass(frozen=True)
class Format:
    """One format: its name, what is written, and the function from a report to text, as
    "module:name". ``brief``: whether --brief shortens it; ``marks``: it is printed by a flag
    without a path, in addition to the usual output.
    """

    name: str
    title: str
    maker: str
    brief: bool = False
    marks: bool = False

    @property
    def key(self) -> str:
        """The parameter with the path."""
        return self.name if self.marks else f"{self.name}_path"

    @property
    def option(self) -> Callable[[Any], Any]:
        """The command-line option."""
        if self.marks:
            return click.option(f"--{self.name}", is_flag=True, help=f"{self.title}.")
        return click.option(
            f"--{self.name}",
            self.key,
            type=Output(),
            metavar="PATH",
            help=f"Write {self.title}.",
        )

    def text(self, report: Report) -> str:
        """A report in this format."""
        module, _, name = self.maker.partition(":")
        made: str = getattr(importlib.import_module(module), name)(report)
        return made


FORMATS = (
    Format(CONCISE, "a line for each failure, file:line: law: message",
           "flowref.reporting.formats.concise:to_concise"),
    Format("json", "the report as JSON", "flowref.reporting.report:to_json", brief=True),
    Format("markdown", "the report as Markdown", "flowref.reporting.markdown:to_markdown", True),
    Format("html", "a page for a browser: one file that loads nothing", "flowref.scorecard:page"),
    Format("junit", "JUnit XML", "flowref.reporting.formats.junit:to_junit"),
    Format("sarif", "SARIF 2.1.0", "flowref.reporting.formats.sarif:to_sarif"),
    Format("gitlab", "Code Quality JSON of GitLab", "flowref.reporting.formats.gitlab:to_gitlab"),
    Format("summary", "a short summary as Markdown", "flowref.reporting.formats.github:to_summary"),
    Format("badge", "JSON for a badge of shields.io", "flowref.reporting.formats.badge:to_badge"),
    Format(GITHUB, f"Mark failures at their lines, and append the summary to ${SUMMARY}",
           "flowref.reporting.formats.github:to_annotations", marks=True),
)  # fmt: skip


def format_options(command: Any) -> Any:
    """Add to a command an option for each format, --output-format and --brief."""
    for one in reversed(FORMATS):
        command = one.option(command)
    command = click.option(
        "--brief",
        is_flag=True,
        help="In JSON and Markdown only count laws that hold or do not apply, without numbers and "
        "reasons.",
    )(command)
    return click.option(
        "--output-format",
        type=click.Choice([FULL, *(one.name for one in FORMATS)]),
        default=FULL,
        show_default=True,
        metavar="FORMAT",
        help="Format of standard output: "
        f"{', '.join([FULL, *(one.name for one in FORMATS)])}; full is for people.",
    )(command)


def printing(choices: Mapping[str, Any]) -> bool:
    """Whether standard output carries a format or events.

    Raises: `click.UsageError` if two claim it.
    """
    names = [f"--{one.name} -" for one in FORMATS if choices[one.key] == "-"]
    names += ["--events -"] if choices.get("events") in ("-", 1) else []
    names += [f"--output-format {name}" for name in (choices["output_format"],) if name != FULL]
    if len(names) > 1:
        raise click.UsageError(
            f"{' and '.join(names)} would be mixed on standard output; give all but one a file"
        )
    return bool(names)


def format_requested(choices: Mapping[str, Any]) -> bool:
    """Whether any format was requested."""
    return choices["output_format"] != FULL or any(choices[one.key] for one in FORMATS)


def write_formats(report: Report, choices: Mapping[str, Any]) -> None:
    """Write every requested format; one that cannot be written does not prevent the others.

    Raises: `ReportError` for the first that could not be written.
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
    taken, printed = printing(choices), choices["output_format"]
    for one in FORMATS:
        short = report.brief() if one.brief and choices["brief"] else report
        if printed == one.name:
            yield functools.partial(_print, one, short)
        elif one.marks and choices[one.key]:
            yield functools.partial(_print, one, short, err=taken)
        if not one.marks and choices[one.key]:
            yield functools.partial(_put, choices[one.key], one, short)
    if (printed == GITHUB or choices[GITHUB]) and os.environ.get(SUMMARY):
        yield functools.partial(_append, report, Path(os.environ[SUMMARY]))


def _print(form: Format, report: Report, *, err: bool = False) -> None:
    click.echo(form.text(report), nl=False, err=err)


def _put(path: str, form: Format, report: Report) -> None:
    from flowref.reporting.files import replace_file

    if path == "-":
        _print(form, report)
    else:
        replace_file(Path(path), form.text(report))


def _append(report: Report, path: Path) -> None:
    """Append to the job summary, which other steps may have begun."""
    from flowref.model import ReportError
    from flowref.reporting.formats.github import to_summary

    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(to_summary(report))
    except OSError as error:
        raise ReportError(
            f"{path}, which {SUMMARY} names, cannot be written: {error.strerror}"
        ) from None
