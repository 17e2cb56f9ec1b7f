"""README.md: its terminal is real, its numbers are those of the findings, and it stays short."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import causes
from plugin.projects import ROOT
from tutorial.pages import blocks, commands, typed

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def test_the_terminal_is_real(tmp_path: Path) -> None:
    """The command prints what README shows, line by line."""
    pytest.importorskip("torch")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shown = [block for block in blocks(TEXT) if block.kind == "console"]
    assert shown
    for block in shown:
        for command in commands(block.text):
            typed(tmp_path, command, columns=100)


def test_the_set_up_ends_in_that_command() -> None:
    """The first line of the set-up ends in what the terminal shows; the second is what CI runs."""
    first, second = re.findall(r"^    ((?:python3|pip) .*(?:flow\.py|tox))$", TEXT, re.M)
    (shown,) = [
        command.line for b in blocks(TEXT) if b.kind == "console" for command in commands(b.text)
    ]
    assert first.split(" && ")[-1] == shown
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert second == "pip install -c constraints.txt tox && tox"
    assert "--constraint constraints.txt tox" in script and "bin/tox" in script


def test_the_number_of_bugs_is_that_of_the_findings() -> None:
    """So is that of the libraries."""
    confirmed = [
        f for f in causes.read(ROOT / "reports" / "findings.toml") if f.kind == causes.CONFIRMED
    ]
    assert f"{len(confirmed)} confirmed bugs" in TEXT
    libraries = {f.library.partition(",")[0] for f in confirmed}
    assert f"confirmed bugs in {len(libraries)} libraries" in TEXT


def test_it_is_short() -> None:
    """At most 110 lines and 800 words, its terminal and tables included."""
    assert len(TEXT.splitlines()) <= 110
    assert len(TEXT.split()) <= 800


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=lambda page: page.stem)
def test_options_exist(page: Path) -> None:
    """Each command that a page types is there, with its options."""
    from flowref.cli.main import main

    for line in re.findall(
        r"(?:^ {4}|`|\$ )(flowref [a-z][^`\n]*)", page.read_text(encoding="utf-8"), re.M
    ):
        words = shlex.split(line.partition(" #")[0].partition(">")[0])
        command = main.commands[words[1]]
        if inner := getattr(command, "commands", {}):
            command = inner[words[2]]
        known = {option for one in command.params for option in one.opts}
        assert {
            word.partition("=")[0] for word in words if word.startswith("-") and word != "-"
        } <= known, line
