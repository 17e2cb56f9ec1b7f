"""Types of command-line values, and options shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


class Duration(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """Seconds: 90, 90s, 5m or 1h."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a duration."""
        if isinstance(value, float):
            return value
        from flowref.baseline.targets import seconds_of

        seconds = seconds_of(value)
        if seconds is None:
            self.fail(
                f"{value!r} is no duration; expected a positive number such as 90, 90s, 5m or 1h",
                param,
                ctx,
            )
        return seconds


class Jobs(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """A number of worker processes, or auto: one per CPU."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a number of workers."""
        if value == "auto":
            return (
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1
            )
        if not str(value).isdigit() or int(value) < 1:
            self.fail(f"{value!r} is no number of workers; expected auto, 1, 2, ...", param, ctx)
        return int(value)


device_option = click.option(
    "--device",
    default="",
    metavar="NAME",
    help="Device to which device laws move objects, such as cuda; by default a stand-in, which needs no GPU.",
)


class Output(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """A file to write, or - for standard output; checked before the work rather than after it."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read a path whose folder exists."""
        path = Path(value)
        if value != "-" and (reason := _obstacle(path)):
            self.fail(f"{value} cannot be written: {reason}", param, ctx)
        return str(value)


class Stream(Output):
    """As `Output`, or the number of an open descriptor."""

    name = "stream"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a path, - or a number."""
        if not str(value).isdecimal():
            return super().convert(value, param, ctx)
        try:
            os.fstat(int(value))
        except (OSError, OverflowError):
            self.fail(
                f"descriptor {value} is not open; expected a path, - or an open one", param, ctx
            )
        return int(value)


def _obstacle(path: Path) -> str:
    """Why a file cannot be written, as far as known; empty if there is no obstacle."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"no folder {path.parent}"
    there = path if path.exists() and not path.is_file() else path.parent
    return "" if os.access(there, os.W_OK) else "writing there is not allowed"


verbose_option = click.option(
    "-v",
    "--verbose",
    count=True,
    help="Print more: advice, and why laws were not decided or do not apply.",
)
quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print only a line for each target, and the closing sentence.",
)


def verbosity(choices: Mapping[str, Any]) -> int:
    """-1 with --quiet, else the number of --verbose."""
    return -1 if choices["quiet"] else int(choices["verbose"])


profile_option = click.option(
    "--profile",
    type=click.Choice(["quick", "standard", "thorough"]),
    default="standard",
    show_default=True,
    help="Effort: quick measures one state of the weights; standard the given, perturbed and trained "
    "weights; thorough also laws that take seconds.",
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=Jobs(),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Worker processes.",
)
