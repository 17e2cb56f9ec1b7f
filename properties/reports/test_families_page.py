"""The page on the wide families names laws and properties that there are, each statement once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from flowref import registry
from flowref.model import Law

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "development" / "families.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]
LAWS = {law.id: law for law in registry.laws()}
# Families all of whose laws are about these kinds: none of them may be missing on the page.
WHOLE = ("residual", "contribution", "continuous")
NAMED = re.compile(r"`([^`]+)`")


def properties() -> set[str]:
    """The names of all properties of the reference."""
    return {
        node.name
        for path in (ROOT / "properties" / "reference").glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def names(row: list[str]) -> list[str]:
    """What a statement is called, once or more."""
    return row[0].partition(":")[0].split(", ")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: names(row)[0])
def test_a_statement_has_a_law_or_a_reason(row: list[str]) -> None:
    """Each row names laws that there are, or says why there is none; and what holds the reference to it."""
    _, laws, held = row
    named = NAMED.findall(laws)
    assert named or re.match(r"none( for users)?: .+", laws)
    assert [law for law in named if law not in LAWS] == []
    assert (
        held == "audits"
        or set(NAMED.findall(held)) & properties() == set(NAMED.findall(held)) != set()
    )


def test_each_statement_stands_once() -> None:
    """No name of a statement is used for two."""
    assert [
        name for name, times in Counter(n for row in ROWS for n in names(row)).items() if times > 1
    ] == []


@pytest.mark.parametrize(
    "law", [one for one in LAWS.values() if one.family in WHOLE], ids=lambda law: law.id
)
def test_no_law_of_these_families_is_left_out(law: Law) -> None:
    """A law of residual maps, of contributions or of solvers answers to a statement."""
    assert f"`{law.base}`" in TEXT
