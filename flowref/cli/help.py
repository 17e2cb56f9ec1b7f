"""Help in groups, with commands as examples; and --color, which every command has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

HELP = "help"
# Title -> parameters of any command below it; others are "Options".
GROUPS = {
    "Selection": ("laws", "ignore", "spec", "event", "domain", "dtype", "data"),
    "Effort": ("profile", "quick", "seed", "exitfirst", "max_failures", "budget"),
    "Known failures": ("baseline_path", "no_baseline"),
    "Exit code": ("strict", "exit_zero"),
    "Output": (
        "output_format", "quiet", "verbose", "color", "brief", "schema", "github", "events", HELP,
    ),
    "Reports in files (- for standard output)": (
        "output", "json_path", "markdown_path", "html_path", "junit_path", "sarif_path",
        "gitlab_path", "concise_path", "summary_path", "badge_path",
    ),
    "Machines": (
        "jobs", "in_process", "timeout", "memory", "resume", "shard", "costs_path", "dask",
    ),
}  # fmt: skip
OTHERS, FURTHER = "Options", "Other commands"
# Smallest width of the first column.
COLUMN = 30
CHOICES = {"always": True, "never": False}


Examples = Sequence[tuple[str, str]]


class Command(click.Command):
    """A command whose help has groups and examples: pairs of a command line and what it does."""

    def __init__(self, *arguments: Any, examples: Examples = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.examples = examples

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, and --color."""
        *own, last = super().get_params(ctx)  # --help
        return [*own, color_option, last]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The description and the examples."""
        super().format_help_text(ctx, formatter)
        _write("Examples", self.examples, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options below the titles of their groups."""
        params = {
            HELP if "--help" in one.opts else str(one.name): one
            for one in self.get_params(ctx)
            if isinstance(one, click.Option)
        }
        grouped = {name for names in GROUPS.values() for name in names}
        named = {OTHERS: tuple(name for name in params if name not in grouped), **GROUPS}
        for title, names in named.items():
            rows = [params[name].get_help_record(ctx) for name in names if name in params]
            _write(title, [row for row in rows if row is not None], formatter)


class Group(click.Group):
    """Commands below titles, a line each; commands in no table use their own short help."""

    def __init__(
        self,
        *arguments: Any,
        titles: Mapping[str, Mapping[str, str]] | None = None,
        examples: Examples = (),
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.titles, self.examples = titles or {}, examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The description and the examples."""
        super().format_help_text(ctx, formatter)
        _write("Examples", self.examples, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options."""
        grouped = {name for rows in self.titles.values() for name in rows}
        others = {
            name: self.commands[name].get_short_help_str(formatter.width)
            for name in self.list_commands(ctx)
            if name not in grouped
        }
        for title, rows in {**self.titles, FURTHER: others}.items():
            _write(title, list(rows.items()), formatter)
        click.Command.format_options(self, ctx, formatter)


def _write(title: str, rows: Examples, formatter: click.HelpFormatter) -> None:
    """Two columns below a title; the first is as wide as the second allows."""
    if rows:
        room = formatter.width - max(len(text) for _, text in rows) - 4
        with formatter.section(title):
            formatter.write_dl(rows, col_max=max(room, COLUMN))


def _color(ctx: click.Context, _: click.Parameter, value: str) -> None:
    """Set color by the option, else by the environment, else by whether output is a terminal."""
    ctx.color = CHOICES.get(value)
    if value == "auto" and os.environ.get("NO_COLOR"):
        ctx.color = False
    elif value == "auto" and os.environ.get("FORCE_COLOR"):
        ctx.color = True


color_option = click.Option(
    ["--color"],
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    expose_value=False,
    is_eager=True,
    callback=_color,
    help="Color on a terminal, always or never; NO_COLOR and FORCE_COLOR are respected.",
)
