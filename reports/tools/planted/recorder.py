"""A plugin of pytest for the recording tree: which test reaches which mutation, and how long it takes.
Each process appends to files of its own in ``PLANTED_NOTES``.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What the recording tree imports under the name flowref_planted.
MODULE = '''"""Notes which test reaches which mutation."""

import os

number = 0
seen = set()


def reached(mutation):
    if mutation not in seen:
        seen.add(mutation)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        if test:
            with open(f"{os.environ['PLANTED_NOTES']}/{os.getpid()}.reached", "a") as notes:
                notes.write(f"{mutation} {test}\\n")
    return False


def near(*mutations):
    for mutation in mutations:
        reached(mutation)
'''


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What this test reaches is its own, and it takes so long."""
    module: Any = importlib.import_module("flowref_planted")
    module.seen.clear()
    began = time.process_time(), os.times()
    try:
        return (yield)
    finally:
        spent = time.process_time() - began[0]
        now = os.times()
        spent += now.children_user + now.children_system
        spent -= began[1].children_user + began[1].children_system
        with (Path(os.environ["PLANTED_NOTES"]) / f"{os.getpid()}.seconds").open("a") as notes:
            notes.write(f"{spent:.3f} {item.nodeid}\n")


def reached(folder: Path) -> dict[int, set[str]]:
    """The tests that reach each mutation."""
    found: dict[int, set[str]] = {}
    for notes in folder.glob("*.reached"):
        for line in notes.read_text(encoding="utf-8").splitlines():
            number, _, test = line.partition(" ")
            found.setdefault(int(number), set()).add(test)
    return found


def seconds(folder: Path) -> dict[str, float]:
    """What each test takes of the processor."""
    return {
        test: float(spent)
        for notes in folder.glob("*.seconds")
        for spent, _, test in (
            line.partition(" ") for line in notes.read_text(encoding="utf-8").splitlines()
        )
    }
