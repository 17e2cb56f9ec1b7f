"""Exceptions in one line: what a verdict says of them is the same in every process."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref.model import one_line


@given(st.text(), st.integers(1, 300))
def test_an_error_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    """Whatever it says, it starts with its class, has no line break and ends at the limit; one that says
    nothing is its class.
    """
    line = one_line(ValueError(text), limit)
    assert line.startswith("ValueError: ") if text.split() else line == "ValueError"
    assert len(line) <= len("ValueError: ") + limit
    assert "\n" not in line
    assert line.isprintable() or not text.isprintable()


@pytest.mark.parametrize(
    "value", [object(), lambda: None, print], ids=["object", "lambda", "built-in"]
)
def test_an_error_names_no_address(value: object) -> None:
    """Where an object lies is another in every process, and helps nobody."""
    assert "0x" not in one_line(TypeError(f"cannot pickle {value!r}"))
    assert "cannot pickle <" in one_line(TypeError(f"cannot pickle {value!r}"))


def test_an_assertion_without_words_quotes_its_line(tmp_path: Path) -> None:
    """Its class alone says nothing."""
    file = tmp_path / "odd.py"
    file.write_text("size = 5\nassert size % 2 == 0\n")
    with pytest.raises(AssertionError) as caught:
        runpy.run_path(str(file))
    assert one_line(caught.value) == "AssertionError: assert size % 2 == 0"
