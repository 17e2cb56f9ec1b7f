"""Options of the command line: help with examples that run, colors, what is left out, early ends, exit codes
and formats on standard output.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from flowref.cli import main
from flowref.cli.exit_code import exit_code
from flowref.cli.formats import FORMATS
from flowref.cli.help import GROUPS, HELP, Command, Group
from flowref.model import KnownFailure, Standing, Status, Verdict
from flowref.reporting.contents import Environment
from flowref.reporting.report import Report

FLOWS = '''
import torch


class Right:
    """x -> 2 x."""

    event_shape = (3,)
    by = 2.0

    def forward(self, x):
        return 2 * x, 3 * torch.full((len(x),), self.by, dtype=x.dtype).log()

    def inverse(self, z):
        return z / 2, -3 * torch.full((len(z),), self.by, dtype=z.dtype).log()


class Wrong(Right):
    by = 3.0
'''
LAW, OTHER = "map/log-det", "map/inverse"
# A line of the concise format: file, line, law and message.
LINE = re.compile(
    r"^(?P<file>[^:]+):(?P<line>\d+): (?P<law>[a-z-]+/[a-z0-9-]+(\[[a-z0-9, -]+\])?): (?P<message>.+)$"
)
ESCAPE = "\x1b["


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a file of flows."""
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: str) -> Result:
    """Audit two laws in this process."""
    laws = ("--laws", f"{LAW},{OTHER}") if "--laws" not in arguments else ()
    words = ["audit", "--in-process", "--profile", "quick", "--json", "r.json", *laws, *arguments]
    return CliRunner().invoke(main, words)


def statuses(path: Path) -> dict[tuple[str, str], Status]:
    """What came of each pair of a report."""
    return {(one.target, one.law): one.status for one in Report.load(path).verdicts}


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Every command with its words, groups too."""
    for name, command in group.commands.items():
        yield " ".join((*names, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


COMMANDS = {"": main, **dict(commands(main))}
EXAMPLES = [
    text
    for command in COMMANDS.values()
    if isinstance(command, Command | Group)
    for text, _ in command.examples
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples(name: str) -> None:
    """Each is of the class whose help has groups, and shows a whole command of its own."""
    command = COMMANDS[name]
    assert isinstance(command, Command | Group)
    assert any(text.startswith(f"flowref {name}".rstrip()) for text, _ in command.examples)


@pytest.mark.parametrize("text", sorted(set(EXAMPLES)))
def test_every_example_is_a_command(text: str) -> None:
    """The words of an example are accepted as they stand, less what the shell does with them."""
    program, *words = shlex.split(text.partition(" > ")[0])
    assert program == "flowref"
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.commands[name]
    command.make_context(name, words, parent=context)


def test_options_stand_in_one_group_each() -> None:
    """No option has two places, and a group names nothing that no command has."""
    listed = [name for names in GROUPS.values() for name in names]
    assert len(listed) == len(set(listed))
    there = {
        param.name
        for command in COMMANDS.values()
        for param in command.get_params(click.Context(command))
    }
    assert set(listed) - {HELP} <= there


def test_what_fails_is_seen_in_every_command_s_help() -> None:
    """The help of the audit holds every option under the title of its group."""
    text = CliRunner().invoke(main, ["audit", "--help"]).output
    titles = ["Examples:", *(f"{title}:" for title in GROUPS)]
    places = [text.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    for flag in ("--laws", "--ignore", "-x, --exitfirst", "--exit-zero", "--gitlab", "--color"):
        assert text.count(f"\n  {flag}") == 1


def test_the_version_has_a_short_option() -> None:
    """-V and --version say the same."""
    first, second = (CliRunner().invoke(main, [flag]).output for flag in ("-V", "--version"))
    assert first == second and first.startswith("flowref, version ")


@pytest.mark.parametrize(
    ("option", "environment", "colored"),
    [
        ((), {}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colors_are_asked_for(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    environment: dict[str, str],
    colored: bool,
) -> None:
    """The option decides, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (ESCAPE in audit("flows.py:Wrong", "--laws", LAW, *option).output) is colored


def test_laws_are_left_out(folder: Path) -> None:
    """--ignore takes globs, repeated or with commas, and what they match is not in the report."""
    assert audit("flows.py:Right", "--ignore", "map/inv*").exit_code == 0
    assert set(statuses(folder / "r.json")) == {("flows.py:Right", LAW)}


@pytest.mark.parametrize(
    ("globs", "said"),
    [("map/*", "no law is left"), ("bijektion/*", "no law matches 'bijektion/*'")],
)
def test_what_cannot_be_left_out_is_said(folder: Path, globs: str, said: str) -> None:
    """Globs that match nothing, or leave nothing, are mistakes."""
    done = audit("flows.py:Right", "--ignore", globs)
    assert done.exit_code == 2 and said in done.stderr


@pytest.mark.parametrize(
    ("option", "failed"), [(("-x",), 1), (("--max-failures", "2"), 2), ((), 2)]
)
def test_an_audit_stops_after_failures(folder: Path, option: tuple[str, ...], failed: int) -> None:
    """After so many new failures the pairs left are not run, each says so, and so does a line."""
    done = audit("flows.py:Wrong", "flows.py:Wrong?event=3", "flows.py:Right", *option)
    assert done.exit_code == 1, done.output
    found = list(statuses(folder / "r.json").values())
    assert found.count(Status.VIOLATED) == failed
    left = Report.load(folder / "r.json").with_status(Status.NOT_RUN)
    said = f"the audit stopped after {failed} failure{'' if failed == 1 else 's'}"
    assert bool(left) is bool(option)
    assert {verdict.reason for verdict in left} <= {said}
    assert (f"{said}; {len(left)} pairs were not run" in done.stderr) is bool(option)


def test_known_failures_do_not_stop_an_audit(folder: Path) -> None:
    """What fails as it is known to is no reason to stop."""
    assert audit("flows.py:Wrong").exit_code == 1
    assert CliRunner().invoke(main, ["baseline", "update"]).exit_code == 0
    assert audit("flows.py:Wrong", "flows.py:Right", "-x").exit_code == 0
    assert Status.NOT_RUN not in statuses(folder / "r.json").values()


@pytest.mark.parametrize(
    ("targets", "code"),
    [(("flows.py:Wrong",), 0), (("flows.py:Right",), 0), (("flows.py:missing",), 2)],
)
def test_exit_zero_forgives_what_was_found(
    folder: Path, targets: tuple[str, ...], code: int
) -> None:
    """It is 0 whatever was found, and 2 still where a target could not be audited."""
    assert audit(*targets, "--exit-zero").exit_code == code


def test_quiet_leaves_a_line_for_each_target(folder: Path) -> None:
    """With -q a target has one line, here and in a report, and nothing is said of its failures."""
    said = audit("flows.py:Wrong", "flows.py:Right", "-q").output
    again = CliRunner().invoke(main, ["report", "-q"]).output
    for text in (said, again):
        assert [line.split()[0] for line in text.splitlines()[:2]] == [
            "flows.py:Wrong",
            "flows.py:Right",
        ]
        assert "reported" not in text and 3 <= len(text.splitlines()) <= 4


def test_the_concise_format_is_a_line_for_each_failure(folder: Path) -> None:
    """Standard output is file, line, law and message of what fails, which an editor matches."""
    done = audit("flows.py:Wrong", "flows.py:Right", "--output-format", "concise")
    lines = [LINE.match(line) for line in done.stdout.splitlines()]
    assert [line and (line["file"], line["law"]) for line in lines] == [("flows.py", LAW)]
    assert "VIOLATED" not in done.stderr.replace("1 VIOLATED", "")


@pytest.mark.parametrize("name", [one.name for one in FORMATS])
def test_standard_output_is_one_format(folder: Path, name: str) -> None:
    """--output-format writes what the option of the format writes, and nothing beside it."""
    done = audit("flows.py:Wrong")
    printed = CliRunner().invoke(main, ["report", "--output-format", name]).stdout
    if name == "github":
        assert printed.startswith("::error ")
        assert printed == CliRunner().invoke(main, ["report", "--github"]).stdout
        return
    done = CliRunner().invoke(main, ["report", f"--{name}", "out"])
    assert done.exit_code == 0, done.output
    assert printed == (folder / "out").read_text()


def test_two_formats_on_standard_output_are_refused(folder: Path) -> None:
    """Nothing is mixed there; a file beside it is written."""
    audit("flows.py:Right")
    mixed = CliRunner().invoke(main, ["report", "--output-format", "json", "--sarif", "-"])
    assert mixed.exit_code == 2 and "would be mixed" in mixed.output
    words = ["report", "--output-format", "json", "--json", "out.json"]
    assert json.loads(CliRunner().invoke(main, words).stdout) == json.loads(
        (folder / "out.json").read_text()
    )


@pytest.mark.parametrize(
    ("minor", "known", "strict", "code"),
    [
        (True, False, False, 0),
        (True, False, True, 1),
        (True, True, True, 0),
        (False, False, False, 1),
        (False, True, True, 0),
    ],
)
def test_minor_violations_count_under_strict(
    minor: bool, known: bool, strict: bool, code: int
) -> None:
    """A minor violation changes the exit code under --strict alone, and not where it is known."""
    held = Verdict("a.py:f", OTHER, Status.HOLDS)
    found = Verdict("a.py:f", LAW, Status.VIOLATED, minor=minor)
    accepted = (KnownFailure("a.py:f", LAW, Standing.KNOWN, "accepted"),) if known else ()
    report = Report(
        Environment("0.1.0", "3.12", "Linux"), (), ("a.py:f",), (held, found), known=accepted
    )
    assert exit_code(report, strict=strict, exit_zero=False) == code
    assert exit_code(report, strict=strict, exit_zero=True) == 0
