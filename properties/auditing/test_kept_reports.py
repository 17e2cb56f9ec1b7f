"""Reports that are kept in a folder: the last one, and a few before it, by the violations in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref.auditing.journal import EARLIER, last_report, report_of, save_last
from flowref.model import ReportError, Status, Verdict
from flowref.reporting import Environment, Report


def report(target: str) -> Report:
    """A report with one violation."""
    verdict = Verdict(target, "map/log-det", Status.VIOLATED)
    return Report(Environment("0", "3", ""), targets=(target,), verdicts=(verdict,))


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, list[Report]]:
    """A folder in which one report more was saved than are kept, and the reports."""
    reports = [report(f"flow-{number}") for number in range(EARLIER + 2)]
    for one in reports:
        save_last(one, tmp_path)
    return tmp_path, reports


@pytest.mark.parametrize("age", range(EARLIER + 1))
def test_a_violation_of_an_earlier_audit_is_found(
    kept: tuple[Path, list[Report]], age: int
) -> None:
    """By its short name, in the newest report that has it."""
    folder, reports = kept
    wanted = reports[-1 - age]
    assert report_of(wanted.verdicts[0].id.lower(), folder) == wanted


@pytest.mark.parametrize("identity", ["", "ZZZZ"])
def test_what_no_report_has_is_asked_of_the_last_one(
    kept: tuple[Path, list[Report]], identity: str
) -> None:
    """So is nothing in particular; the oldest report is gone."""
    folder, reports = kept
    assert report_of(identity, folder) == last_report(folder) == reports[-1]
    assert report_of(reports[0].verdicts[0].id, folder) == reports[-1]


def test_without_a_report_there_is_an_error(tmp_path: Path) -> None:
    """It says what to run."""
    with pytest.raises(ReportError, match="run flowref audit"):
        report_of("ZZZZ", tmp_path)
