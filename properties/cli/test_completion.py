"""Completion in a shell, and the list of laws: names read off sources, without a framework."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from effort import PATIENCE
from flowref import registry
from flowref.cli import main, names
from flowref.cli.completion import PROGRAM, SHELLS, VARIABLE
from flowref.reporting.law_list import law_lines

FILE = """
import nothing_there

class Flow: ...
def make(): ...
def _hidden(): ...
flow = Flow()
"""
# Words of a command, the last one as far as it was typed -> what it completes to; ... for more.
COMPLETED: dict[str, list[Any]] = {
    "audit flows.py:": ["flows.py:Flow", "flows.py:make", "flows.py:flow"],
    "audit flows.py:F": ["flows.py:Flow"],
    "check flows.py:F": ["flows.py:Flow"],
    "audit fl": [
        "flows.py", "flows.py:Flow", "flows.py:make", "flows.py:flow", "flowjax:", "flowjax", "flax:", "flax",
        "flow_matching:", "flow_matching",
    ],
    "audit sub/": ["sub/more.py", "sub/more.py:Flow", "sub/more.py:make", "sub/more.py:flow"],
    "audit zu": ["zuko:", "zuko"],
    "audit broken.py:": [],
    "audit none.py:": [],
    "audit flows.py:make --laws map/promised-jacobian[v": ["map/promised-jacobian[volume]"],
    "audit --ignore mode/*,squeeze/perm": ["mode/*,squeeze/permutes", "mode/*,squeeze/permutes[windows]"],
    "audit --ignore sque": ["squeeze/*", ...],
    "audit --color ": ["auto", "always", "never"],
    "audit --output-format conc": ["concise"],
    "explain density/distr": [
        "density/distribution-function",
        "density/distribution-function[one-context]",
        "density/distribution-function[trained]",
    ],
    "completion ": ["bash", "zsh", "fish"],
    "base": ["baseline"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with Python files, one of which is none."""
    (tmp_path / "sub").mkdir()
    for name in ("flows.py", "sub/more.py"):
        (tmp_path / name).write_text(FILE)
    (tmp_path / "broken.py").write_text("class (")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def completed(line: str) -> list[str]:
    """What the last word of a line may become."""
    *words, incomplete = line.split(" ")
    shell = ShellComplete(main, {}, PROGRAM, VARIABLE)
    return [item.value for item in shell.get_completions(words, incomplete)]


def test_laws_are_listed_as_they_are() -> None:
    """Names, force and statement that are read off the sources are those of the catalogue."""
    assert law_lines(names.declared_law_names()) == law_lines(registry.laws())


def test_libraries_are_listed_as_they_are() -> None:
    """Names of libraries that are read off the sources are those of their adapters."""
    known = {name: one.package for name, one in registry.adapters().items() if one.package}
    assert names.libraries() == known


@pytest.mark.parametrize("line", COMPLETED)
def test_words_complete(folder: Path, line: str) -> None:
    """Specs complete to libraries, files and the names in them, laws to ids and families."""
    wanted, found = COMPLETED[line], completed(line)
    if wanted[-1:] == [...]:
        assert wanted[0] == found[0] and len(found) > 1
    else:
        assert sorted(found) == sorted(wanted)
    assert all(text.startswith(line.split(" ")[-1]) for text in found)


def test_constructions_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library is imported for its constructions once."""
    asked = []

    def listed(library: str) -> list[str]:
        asked.append(library)
        return ["NSF", "NICE", "MAF"]

    monkeypatch.setattr(names, "_constructions", listed)
    for _ in range(2):
        assert completed("audit zuko:N") == ["zuko:NSF", "zuko:NICE"]
    assert asked == ["zuko"]


def test_nothing_heavy_is_imported(folder: Path) -> None:
    """Neither completion nor the list of laws imports numpy or a framework, nor a user's file."""
    program = (
        "import sys\nfrom flowref.cli import main\n"
        "try:\n    main(['laws'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "from click.shell_completion import ShellComplete\n"
        f"shell = ShellComplete(main, {{}}, {PROGRAM!r}, {VARIABLE!r})\n"
        "for words in (['audit'], ['audit', '--laws'], ['explain']):\n"
        "    assert shell.get_completions(words, '')\n"
        "assert shell.get_completions(['audit'], 'flows.py:')\n"
        "heavy = {'torch', 'jax', 'numpy', 'rich', 'flowref.model', 'flows'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_script(folder: Path, shell: str) -> None:
    """Each shell that is here accepts what is printed for it."""
    text = CliRunner().invoke(main, ["completion", shell]).output
    assert PROGRAM in text and VARIABLE in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    flags = "--no-execute" if shell == "fish" else "-n"
    assert subprocess.run([shell, flags], input=text, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("breaks", "found"),
    [(" :", "Flow make flow"), (" ", "flows.py:Flow flows.py:make flows.py:flow")],
)
def test_bash_completes_behind_a_colon(folder: Path, breaks: str, found: str) -> None:
    """Where colons end words only what is behind them is completed, else the whole."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    command = folder / "flowref"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flowref "$@"\n')
    command.chmod(0o755)
    line = "flowref audit flows.py:"
    program = (
        f"{script}\nCOMP_WORDBREAKS={breaks!r}\nCOMP_LINE={line!r}\nCOMP_POINT={len(line)}\n"
        "_flowref_completion ./flowref\necho ${COMPREPLY[@]}\n"
    )
    root = str(Path(names.ROOT).parent)
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        ["bash"], input=program, capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.strip() == found, done.stderr
