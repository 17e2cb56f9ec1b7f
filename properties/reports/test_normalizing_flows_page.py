"""The page on the tutorial says something of every claim, and names only laws that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowref import registry
from flowref_zoo.seeds.flows import ROWS

TEXT = (Path(__file__).parents[2] / "reports" / "normalizing-flows.md").read_text(encoding="utf-8")
# The text below the heading of each claim, up to the next heading.
SECTIONS = re.findall(
    r"^### [^\n]+: [a-z ]+ \((\d{3}-\d+)\)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL
)
CLAIMS = [f"001-{row}" for row in range(1, 28)]
FAMILIES = "|".join(sorted({law.family for law in registry.laws()}))


def test_every_claim_once() -> None:
    """Each claim of the tutorial has one heading, and there is no other."""
    assert sorted(row for row, _ in SECTIONS) == sorted(CLAIMS)


@pytest.mark.parametrize("row", CLAIMS)
def test_every_claim_is_measured(row: str) -> None:
    """A claim comes with something measured, and with its laws or the word that there is none."""
    assert re.search(r"^\*Measured:\* .+ \*Law:\* .+\.$", dict(SECTIONS)[row], re.MULTILINE)


def test_laws_exist() -> None:
    """Whatever looks like the id of a law is one."""
    named = set(re.findall(rf"`((?:{FAMILIES})/[a-z0-9-]+)`", TEXT))
    assert named and named <= {law.id for law in registry.laws()}


@pytest.mark.parametrize("row", ROWS)
def test_bugs_name_their_laws(row: str) -> None:
    """A bug of the code has on the page the laws that the zoo says it breaks."""
    assert [law for law in ROWS[row].laws if f"`{law}`" not in dict(SECTIONS)[row]] == []


@pytest.mark.parametrize(
    ("word", "row"), re.findall(r"^### .+: (wrong|unsound) \((\d{3}-\d+)\)$", TEXT, re.MULTILINE)
)
def test_what_is_wrong_is_a_subject(row: str, word: str) -> None:
    """Each wrong statement, and each unsound one that can be called, is a bug that laws name."""
    assert row in ROWS
    assert ROWS[row].laws or (word == "unsound" and "*Law:* none" in dict(SECTIONS)[row])
