"""A page of the tutorial as a project: files are written, commands typed, and what comes back is
compared with what the page says.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from effort import PATIENCE
from plugin.projects import PLUGIN, ROOT

FENCE = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.M | re.S
)
ANYTHING = "..."
EXITS = re.compile(r"\s+# exits (\d+)$")
INSTALL = "pip install -e ."
ENVIRONMENT = re.compile(r"pip install -c (?P<constraints>\S+) -e '\.\[(?P<extra>\w+)\]'$")
FRAMEWORKS = ("jax", "torch")


@dataclass(frozen=True)
class Block:
    """A fenced block: what kind of text it is, the file that it is, if any, and the text."""

    kind: str
    title: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line that is typed, the exit code, and the lines that come back."""

    line: str
    code: int
    expected: tuple[str, ...]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for match in FENCE.finditer(text):
        yield Block(match["kind"], match["title"] or "", match["text"])


def frameworks(text: str) -> set[str]:
    """The frameworks that the blocks of a page import: what has to be installed to run it."""
    code = "\n".join(block.text for block in blocks(text) if block.kind == "python")
    return {name for name in FRAMEWORKS if re.search(rf"^\s*(import|from) {name}\b", code, re.M)}


def commands(text: str) -> Iterator[Command]:
    """The commands of a console."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, *expected = part.rstrip("\n").split("\n")
        exits = EXITS.search(line)
        yield Command(EXITS.sub("", line), int(exits[1]) if exits else 0, tuple(expected))


def missing(expected: tuple[str, ...], printed: str) -> str:
    """The first expected line that was not printed after those before it; empty if all were. Three
    dots stand for any text, on a line of their own for any lines.
    """
    lines = printed.splitlines()
    for wanted in expected:
        pattern = ".*".join(re.escape(piece) for piece in wanted.split(ANYTHING))
        while lines and wanted.strip() not in ("", ANYTHING):
            if re.search(pattern, lines.pop(0)):
                break
        else:
            if wanted.strip() not in ("", ANYTHING):
                return wanted
    return ""


def run(page: Path, folder: Path) -> None:
    """Do what a page says, in a folder. Raises: `AssertionError` where it says something else than
    what happens.
    """
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            _done(folder, [sys.executable, "-c", block.text], 0, block.text)
        elif block.kind == "console":
            for command in commands(block.text):
                typed(folder, command)
        else:
            raise AssertionError(f"{page.name}: nobody runs this block: {block}")


def typed(folder: Path, command: Command, columns: int = 160) -> None:
    """Type a command in a folder. Raises: `AssertionError` where something else comes back."""
    if command.line == INSTALL:
        _install(folder)
        return
    if environment := ENVIRONMENT.search(command.line):
        _prepared(command.line, environment)
        return
    words = ["bash", "-c", command.line]
    printed = _done(folder, words, command.code, command.line, columns)
    line = missing(command.expected, printed)
    assert not line, f"$ {command.line}\nsays no such line: {line}\n\n{printed}"


def _prepared(line: str, environment: re.Match[str]) -> None:
    """The environment is the one that runs this. It was made as the README says, of what the extra
    asks for, each pinned.
    """
    assert line in (ROOT / "README.md").read_text(encoding="utf-8"), f"README does not say: {line}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / environment["constraints"]).read_text(encoding="utf-8")
    for requirement in project["optional-dependencies"][environment["extra"]]:
        name = re.split(r"[=<>]", requirement)[0]
        importlib.metadata.version(name)
        assert re.search(rf"^{name}==", pinned, re.M), f"{name} is not pinned"


def _install(folder: Path) -> None:
    """What the installation of a project does to its entry points, without a network."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {module}" for name, module in entries.items())]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("\n".join(lines))
    named = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(named)


def _done(folder: Path, words: list[str], code: int, told: str, columns: int = 160) -> str:
    """What a command prints; it has to end with this code."""
    python = shlex.quote(sys.executable)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": str(columns),
    }
    # One worker for each audit: the properties use the cores as processes, and a worker of one law more
    # loads a framework once more.
    names = (
        f'python() {{ {python} "$@"; }}; '
        f'flowref() {{ [ "$1" != audit ] || set -- audit -j 1 "${{@:2}}"; {python} -m flowref "$@"; }}; '
        f'pytest() {{ {python} -m pytest {shlex.join(PLUGIN)} -p no:cacheprovider "$@"; }}; '
    )
    if words[0] == "bash":
        words = [*words[:-1], names + words[-1]]
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, f"{told}\nexits {done.returncode}:\n{done.stdout}"
    return done.stdout
