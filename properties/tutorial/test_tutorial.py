"""Every snippet of the tutorial does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import backends
from plugin.projects import ROOT
from rows import one_of_each
from tutorial.pages import blocks, commands, frameworks, missing, run

# The first that is read comes first.
PAGES = sorted(
    (ROOT / "docs" / "tutorial").glob("*.md"), key=lambda page: (page.stem != "first-flow", page)
)


def framework(page: Path) -> frozenset[str]:
    """What a page needs to be run."""
    return frozenset(frameworks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", one_of_each(PAGES, framework), ids=[page.stem for page in PAGES])
def test_a_page_is_true(page: Path, tmp_path: Path) -> None:
    """Files, commands, exit codes and what is printed are as the page says, where the framework is
    installed that it imports.
    """
    for name in framework(page):
        if not backends.installed(name):
            pytest.skip(f"this page is about {name}, which is not installed here")
    run(page, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ echo 'a b'\na ...\n$ false    # exits 1\n```\n", ""),
        ("```console\n$ echo a\nb\n```\n", "says no such line: b"),
        ("```console\n$ echo a; echo b\nb\na\n```\n", "says no such line: a"),
        ("```console\n$ false\n```\n", "exits 1"),
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```console\n$ pip install -c constraints.txt -e '.[no]'\n```\n", "README does not say"),
        ("```yaml\na: b\n```\n", "nobody runs this block"),
    ],
)
def test_a_page_that_is_not_true_is_found(text: str, said: str, tmp_path: Path) -> None:
    """The test of the test: what does not happen, in this order, or ends otherwise, is told."""
    page = tmp_path / "page.md"
    page.write_text(text)
    if not said:
        run(page, tmp_path)
        return
    with pytest.raises(AssertionError, match=said):
        run(page, tmp_path)


def test_a_page_is_of_one_framework() -> None:
    """Each page is run in one of the two environments; that of the second framework where torch is
    not.
    """
    found = {page.stem: frameworks(page.read_text(encoding="utf-8")) for page in PAGES}
    assert found["second-framework"] == {"jax"}
    assert found["first-flow"] == {"torch"}
    assert all(len(names) <= 1 for names in found.values())


def test_all_fences_are_read() -> None:
    """Each fenced block of the tutorial is a block that is run."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(list(blocks(text))) * 2 == sum(
            line.startswith("```") for line in text.splitlines()
        )


def test_three_dots_stand_for_anything() -> None:
    """On a line of their own for lines, and within one for letters."""
    (command,) = commands("$ x    # exits 3\n...\na ... c\n")
    assert (command.line, command.code) == ("x", 3)
    assert missing(command.expected, "first\na b c\nlast") == ""
    assert missing(command.expected, "a b") == "a ... c"
