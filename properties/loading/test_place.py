"""Where a report points: the line at which a user's target is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowref.loading.place import NOWHERE, definition_location, root_of
from flowref.loading.source import Source
from flowref.model import Target

FLOWS = """
import functools
from other import Elsewhere


def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


class Flow:
    def __init__(self, size=3):
        self.size = size

    class Inner:
        pass

    @classmethod
    def made(cls):
        return cls()


@logged
def factory():
    return Flow()


small = functools.partial(Flow, size=2)
flow = Flow()
flow = Flow(4)
short = lambda: Flow()
"""
# What a target names, and the text of the line that it is found at.
LINES = {
    "Flow": "class Flow:",
    "Flow.Inner": "class Inner:",
    "Flow.made": "@classmethod",
    "factory": "@logged",
    "small": "class Flow:",
    "flow": "flow = Flow(4)",
    "short": "short = lambda: Flow()",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder within a repository, with files of flows; one for all, since modules stay imported."""
    root = tmp_path_factory.mktemp("repository")
    (root / ".git").mkdir()
    home = root / "src"
    home.mkdir()
    (home / "flows.py").write_text(FLOWS.replace("other", "place_elsewhere"))
    (home / "place_elsewhere.py").write_text("\n\nclass Elsewhere:\n    pass\n")
    return home


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, as the working folder."""
    monkeypatch.chdir(home)
    return home


def place(spec: str, adapter: str = "user") -> tuple[str, int]:
    """Where a target stands; nothing is built."""
    return definition_location(Source(Target(adapter, spec), lambda: None))


@pytest.mark.parametrize("name", LINES)
def test_a_target_stands_where_it_is_written(folder: Path, name: str) -> None:
    """Classes, methods, decorated factories, partials, objects and functions without a name: file
    from the root of the repository, and the first line of what is written.
    """
    path, line = place(f"flows.py:{name}")
    assert path == "src/flows.py"
    assert FLOWS.splitlines()[line - 1].strip() == LINES[name]


def test_what_is_imported_stands_where_it_comes_from(folder: Path) -> None:
    """A name that a file only imports leads to the file that defines it."""
    assert place("flows.py:Elsewhere") == ("src/place_elsewhere.py", 3)


def test_a_notebook_is_named(folder: Path) -> None:
    """A target in a notebook leads to the notebook."""
    cell = {"cell_type": "code", "source": "class Flow: pass", "metadata": {}, "outputs": []}
    (folder / "book.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}}))
    assert place("book.ipynb:Flow") == ("src/book.ipynb", 1)


def test_what_is_not_of_this_repository_has_no_place(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Files outside the repository, what is installed within it, constructions of libraries, and
    names that mean nothing.
    """
    outside = tmp_path_factory.mktemp("outside") / "flows.py"
    installed = folder / ".venv" / "site-packages" / "flows.py"
    installed.parent.mkdir(parents=True)
    for file in (outside, installed):
        file.write_text("class Flow: pass")
        assert place(f"{file}:Flow") == NOWHERE
    assert place("json:JSONEncoder") == NOWHERE
    assert place("flows.py:absent") == NOWHERE
    assert place("NSF", adapter="zuko") == NOWHERE


def test_without_a_repository_the_folder_is_the_root(tmp_path: Path) -> None:
    """Where no folder above is a repository, paths are from the working folder."""
    assert root_of(tmp_path) == tmp_path.resolve()
    (tmp_path / ".git").write_text("gitdir: elsewhere")  # as in a worktree
    (tmp_path / "deep").mkdir()
    assert root_of(tmp_path / "deep") == tmp_path.resolve()
