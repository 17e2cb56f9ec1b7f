"""Mutations of a small package: what the list says of each is what its tests do."""

from __future__ import annotations

import ast
import json
import subprocess
from typing import Any

import pytest

import mutations
from planted.sites import draw, planted, sites

PACKAGE = '''"""A small package."""

from __future__ import annotations

LIMIT = 10.0


def capped(value: float) -> float:
    """At most the limit."""
    if value > LIMIT:
        return LIMIT
    return value


def doubled(value: float) -> float:
    return 2 * value


def unwatched(values: list[float]) -> float:
    values.sort(reverse=True)
    return values[0]


def forgotten(value: float) -> float:
    return -value
'''
TESTS = """
import small


def test_small_numbers_stay():
    assert small.capped(3.0) == 3.0


def test_large_numbers_are_capped():
    assert small.capped(30.0) == small.LIMIT


def test_twice():
    assert small.doubled(3.0) == 6.0


def test_twice_again():
    assert small.doubled(5.0) == 10.0


def test_nothing():
    small.unwatched([1.0])


def test_broken():
    assert small.doubled(1.0) == 3.0
"""


# What becomes of the mutation in a line, and the tests that are named.
OUTCOMES: dict[str, tuple[str, list[str]]] = {
    "10.0": ("survived", []),
    "value > LIMIT": ("survived", []),
    "LIMIT": ("alone", ["test_large_numbers_are_capped"]),
    "value": ("alone", ["test_small_numbers_stay"]),
    "2 * value": ("killed", ["test_twice", "test_twice_again"]),
    "values.sort(reverse=True)": ("survived", []),
    "values[0]": ("survived", []),
    "-value": ("not reached", []),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The list of a repository with this package, by what is changed."""
    root = tmp_path_factory.mktemp("repository")
    (root / "small").mkdir()
    (root / "small" / "__init__.py").write_text(PACKAGE)
    (root / "test_small.py").write_text(TESTS)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    code = mutations.main(["--root", str(root), "--package", "small", "--count", "100"])
    assert code == 0, (root / "build" / "mutations" / "pytest.log").read_text()
    result = json.loads((root / "reports" / "mutations.json").read_text())
    return {row["before"]: row for row in result["mutations"]}


@pytest.mark.parametrize("before", OUTCOMES)
def test_the_list_says_what_the_tests_do(rows: dict[str, Any], before: str) -> None:
    """A test that fails without any mutation is no killer; a test is alone where no other fails."""
    row = rows[before]
    killers = sorted(name.partition("::")[2] for name in row.get("killers", ()))
    assert (row["outcome"], killers) == OUTCOMES[before]


def test_all_statements_have_a_mutation(rows: dict[str, Any]) -> None:
    """Where so many are drawn, each statement has one."""
    assert set(rows) == set(OUTCOMES)


def test_sites_are_drawn_by_seed_and_leave_lines_where_they_are() -> None:
    """Each statement has at most one, none overlap, and the text stays one of as many lines."""
    texts = {"small/__init__.py": PACKAGE}
    first, again = draw(texts, 100, 3), draw(texts, 100, 3)
    assert first == again
    assert len(first) <= len(sites(PACKAGE))
    text = planted(PACKAGE, first)
    ast.parse(text)
    assert text.count("\n") == PACKAGE.count("\n")
    assert all(f"== {each.number}" in text for each in first)
