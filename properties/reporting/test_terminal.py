"""The end of an audit on a screen: failures by library and cause, counts, and one sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowref.model import Problem, Size, Status, Verdict
from flowref.reporting.audit_summary import FEW, summary_lines
from flowref.reporting.contents import Environment
from flowref.reporting.progress_counts import Count
from flowref.reporting.report import Report

PASSED = Verdict("lib:A", "a/b", Status.HOLDS)
SKIPPED = Verdict("lib:A", "a/c", Status.NOT_APPLICABLE, "it offers no inverse", blocked=True)
WRONG = Verdict("lib:A", "map/log-det", Status.VIOLATED, "it is wrong")
MINOR = Verdict("lib:A", "map/promised-jacobian[monotone]", Status.VIOLATED, minor=True)
PROBLEM = Problem("lib:B", "lib:B cannot be loaded: no weights")


def report(*verdicts: Verdict, problems: tuple[Problem, ...] = (), complete: bool = True) -> Report:
    """A report of these verdicts."""
    targets = tuple(dict.fromkeys(verdict.target for verdict in verdicts))
    return Report(Environment("0", "3", "here"), (), targets, verdicts, problems, complete)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (report(PASSED, replace(PASSED, law="a/d")), "All 2 checks passed."),
        (report(PASSED), "1 check passed."),
        (report(PASSED, SKIPPED, MINOR), "1 check passed; 1 minor, 1 skipped."),
        (report(PASSED, WRONG), "1 failure (exit code 1)."),
        (
            report(WRONG, problems=(PROBLEM,)),
            "1 failure, and 1 target could not be audited (exit code 2).",
        ),
        (report(PASSED, complete=False), "The audit was interrupted."),
        (
            report(SKIPPED),
            "Nothing meaningful was checked: no law held and none was violated (exit code 5).",
        ),
    ],
)
def test_the_last_sentence(made: Report, said: str) -> None:
    """It says whether all is well, and what the exit code means; a refusal is not repeated."""
    for verbosity in (-1, 0, 1):
        assert summary_lines(made, verbosity=verbosity)[-1] == said
    assert not any("no weights" in line for line in summary_lines(made))


@pytest.mark.parametrize("number", [FEW, FEW + 1])
def test_long_audits_list_their_failures_again(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than a few targets: by library and cause, the largest first."""
    monkeypatch.setenv("COLUMNS", "160")
    same = [replace(WRONG, target=f"lib:{n}", size=Size(1.0, 1.0, 3, 2)) for n in range(number - 1)]
    large = replace(WRONG, target="other:X", size=Size(9.0, 9.0, 3, 2), diagnosis="it is twice")
    lines = summary_lines(report(*same, large))
    assert ("Failures, the largest first:" in lines) is (number > FEW)
    if number > FEW:
        assert lines[1:3] == [
            "  other",
            "    VIOLATED  map/log-det (9 nats per point, 6.5 bits per dimension)   it is "
            f"twice   [X {large.id}]",
        ]
        named = ", ".join(f"{n} {one.id}" for n, one in enumerate(same))
        assert lines[3] == "  lib"
        assert lines[4].endswith(f"it is wrong   [{named}]")


def test_progress_counts_what_applies() -> None:
    """Laws about something else are no checks, and what another violation explains is not counted."""
    count = Count(5)
    symptom = replace(WRONG, law="map/log-det[antisymmetry]")
    elsewhere = replace(SKIPPED, law="a/e", blocked=False)
    for verdict in (symptom, PASSED, elsewhere, SKIPPED, WRONG):
        count.add(verdict)
    assert str(count) == "4 checks done, at most 0 left, 1 suspected bug"
