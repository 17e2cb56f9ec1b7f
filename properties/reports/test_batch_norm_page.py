"""The page on batch normalization says something of every claim, and names only laws and pictures
that there are.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowref import registry
from flowref_zoo.seeds.batch_norm_rows import ROWS

PAGE = Path(__file__).parents[2] / "reports" / "batch-norm.md"
TEXT = PAGE.read_text(encoding="utf-8")
# The text below the heading of each claim, up to the next heading.
SECTIONS = re.findall(
    r"^### [^\n]+: [a-z ]+ \((\d{3}-\d+)\)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL
)
CLAIMS = [f"000-{row}" for row in range(1, 22)] + [f"002-{row}" for row in range(1, 17)]
FAMILIES = "|".join(sorted({law.family for law in registry.laws()}))


def test_every_claim_once() -> None:
    """Each claim of the notes has one heading, and there is no other."""
    assert sorted(row for row, _ in SECTIONS) == sorted(CLAIMS)


@pytest.mark.parametrize("row", CLAIMS)
def test_every_claim_is_measured(row: str) -> None:
    """A claim comes with something measured, and with its laws or the word that there is none."""
    text = dict(SECTIONS)[row]
    assert re.search(r"^\*Measured:\* .+ \*Law:\* .+\.$", text, re.MULTILINE)


def test_laws_exist() -> None:
    """Whatever looks like the id of a law is one."""
    named = set(re.findall(rf"`((?:{FAMILIES})/[a-z0-9-]+)`", TEXT))
    assert named and named <= {law.id for law in registry.laws()}


@pytest.mark.parametrize("row", ROWS)
def test_bugs_name_their_laws(row: str) -> None:
    """A bug of the code has on the page the laws that the zoo says it breaks."""
    text = dict(SECTIONS)[row]
    assert [law for law in ROWS[row].laws if f"`{law}`" not in text] == []


def test_pictures_exist() -> None:
    """Every picture on the page is there, and every picture that is there is on the page."""
    shown = re.findall(r"^!\[[^]]+\]\((batch-norm/[a-z-]+\.svg)\)$", TEXT, re.MULTILINE)
    assert sorted(shown) == sorted(
        path.relative_to(PAGE.parent).as_posix() for path in PAGE.with_suffix("").iterdir()
    )
