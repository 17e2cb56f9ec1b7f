"""ARCHITECTURE.md, CONTRIBUTING.md and docs/decisions describe the tree as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from floors import FLOORS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_exist(page: Path) -> None:
    """Every file and folder that a page names is there."""
    named = re.findall(r"`((?:flowref|properties)/[\w/.]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_picture_draws_imports_downwards() -> None:
    """Each room stands in the picture, above those that it imports."""
    picture = (ROOT / "docs" / "pictures" / "architecture.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'y="([\d.]+)">([\w, ]+)</text>', picture.partition("Rooms:")[2])
    height = {name: float(y) for y, name in drawn}
    rooms = {room: below for room, below in FLOORS.items() if not room.startswith("__")}
    assert set(height) == set(rooms)
    upwards = [(room, of) for room in rooms for of in rooms[room] if height[of] <= height[room]]
    assert upwards == []


def test_decisions_are_numbered_once() -> None:
    """The files count up from 001."""
    numbers = [int(page.name[:3]) for page in PAGES if page.stem[:3].isdigit()]
    assert numbers == list(range(1, len(numbers) + 1))
