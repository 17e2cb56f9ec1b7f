"""Kinds of command-line values, and options that several commands have."""

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
    """A number of worker processes, or auto: one per processor."""

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
    help="Where laws of devices move objects, such as cuda; by default to a stand-in, which needs no GPU.",
)


class Output(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no parameter
    """A file to write, or - for standard output; refused before the work rather than after it."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read the path of a file whose folder exists."""
        path = Path(value)
        if value != "-" and (reason := _obstacle(path)):
            self.fail(f"{value} cannot be written: {reason}", param, ctx)
        return str(value)


class Stream(Output):
    """What `Output` takes, or the number of a descriptor that is open for writing."""

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
    """Why a file cannot be written, as far as that shows beforehand; empty where it may be."""
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
    help="Say more: what was advised, and why laws were not decided or do not apply.",
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="A line for each target, and the last sentence."
)


def verbosity(choices: Mapping[str, Any]) -> int:
    """How much is said: -1 with --quiet, else how often --verbose was given."""
    return -1 if choices["quiet"] else int(choices["verbose"])


profile_option = click.option(
    "--profile",
    type=click.Choice(["quick", "standard", "thorough"]),
    default="standard",
    show_default=True,
    help="How hard to look: quick measures one state of the weights, standard those as given, moved and "
    "trained, thorough also what takes seconds.",
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
