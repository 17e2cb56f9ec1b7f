"""How many rows of a test are run by default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import durations

JUNIT = """<testsuites><testsuite>
<testcase classname="properties.a.test_b" name="test_c[1]" time="1.0"/>
<testcase classname="properties.a.test_b" name="test_c[2]" time="3.0"/>
<testcase classname="properties.a.test_b" name="test_c[3]" time="0.0"><skipped/></testcase>
<testcase classname="properties.a.test_b" name="test_once" time="40.0"/>
<testcase classname="properties.a.test_b" name="test_quick[1]" time="9.0"><properties>
<property name="processor" value="0.5"/></properties></testcase>
<testcase classname="properties.a.test_b" name="test_quick[2]" time="0.5"/>
</testsuite></testsuites>
"""


@pytest.mark.parametrize(
    ("seconds", "number"),
    [((1.0,), 1), ((50.0, 50.0), 1), ((1.0, 1.0), 2), ((2.0, 0.0, 1.0, 1.0), 3), ((0.0, 0.0), 2)],
)
def test_as_many_rows_are_kept_as_take_a_few_seconds(
    seconds: tuple[float, ...], number: int
) -> None:
    """One at least, all at most, at what they take on average."""
    assert durations.kept(seconds, 3.0) == number


def test_a_file_keeps_its_quickest_tests() -> None:
    """As many as take a few seconds together, one at least; files with budgets of their own keep all."""
    slow = {"a.py::quick": [1.0], "a.py::slow": [9.0], "b.py::slow": [9.0]}
    own = {"test_claims.py::quick": [1.0], "test_claims.py::slow": [9.0]}
    assert durations.table(slow | own) == {"a.py::slow": 0}


def test_a_table_is_written_from_what_tests_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were skipped do not count, a test that takes too long for its file is not run, and seconds of the processor
    come before those of the clock.
    """
    (tmp_path / "junit.xml").write_text(JUNIT)
    monkeypatch.setattr(durations, "TABLE", tmp_path / "rows.json")
    assert durations.main([str(tmp_path / "junit.xml")]) == 0
    assert json.loads((tmp_path / "rows.json").read_text()) == {
        "a/test_b.py::test_c": 1,
        "a/test_b.py::test_once": 0,
    }
