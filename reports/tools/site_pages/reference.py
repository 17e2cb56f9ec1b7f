"""The reference: the help of each command, and the public names of the package with their docstrings."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from typing import Any

import click

import flowref
from flowref.cli.main import main
from site_pages.pieces import fenced

WIDTH = 100


def pages() -> dict[str, str]:
    """Path below the site -> Markdown."""
    return {"reference/cli.md": _commands(), "reference/python.md": _names()}


def _commands() -> str:
    lines = ["# Command line", "", "What `flowref COMMAND --help` prints.", ""]
    for name, command in sorted(_leaves(main, "flowref")):
        with click.Context(
            command, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH
        ) as context:
            text = click.unstyle(command.get_help(context))
        lines += [f"## {name}", "", *fenced(text, "text")]
    return "\n".join(lines)


def _leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for part, one in command.commands.items():
        yield from _leaves(one, f"{name} {part}")


def _names() -> str:
    lines = [
        "# Python",
        "",
        "The public names of `flowref`, from their docstrings. `flowref.reference` holds the layers, and "
        "`flowref.pytest.conformance` is the [decorator for tests](../guides/tests.md).",
        "",
    ]
    for name in sorted(set(flowref.__all__) - {"__version__"}, key=str.casefold):
        lines += _entry(name, getattr(flowref, name))
    return "\n".join(lines)


def _entry(name: str, value: Any) -> list[str]:
    shown = name if inspect.isclass(value) else f"{name}{_signature(value)}"
    lines = [f"## {name}", ""]
    if not inspect.isclass(value):
        lines += fenced(shown, "python")
    lines += fenced(inspect.getdoc(value) or "", "text")
    if inspect.isclass(value) and not issubclass(value, enum.Enum):
        members = [
            (one, member)
            for one, member in vars(value).items()
            if not one.startswith("_")
            and (callable(member) or isinstance(member, property | classmethod))
        ]
        lines += [f"- `{one}`: {_first(member)}" for one, member in members if _first(member)] + [
            ""
        ]
    return lines


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def _first(member: Any) -> str:
    """The first sentence of a member's docstring."""
    return (inspect.getdoc(member) or "").split("\n\n")[0].replace("\n", " ")
