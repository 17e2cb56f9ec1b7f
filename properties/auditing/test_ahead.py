"""A worker that has nothing to do loads the target that another is loading."""

from __future__ import annotations

from pathlib import Path

import pytest

from effort import PATIENCE
from flowref import registry
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.auditing.schedule import WORTH_LOADING, Schedule, ScheduledPair
from flowref.model import Status, Target
from flowref.reporting.report import Report

HERE = Path(__file__).parent
LAWS = tuple(law.id for law in registry.laws())[: 3 * WORTH_LOADING]
ONE, TWO = Target("user", "one.py:one"), Target("user", "two.py:two")


def audit(monkeypatch: pytest.MonkeyPatch, name: str) -> Report:
    """Of a target that takes seconds to load, by two workers."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(HERE)
    options = Options(jobs=2, limits=Limits(PATIENCE), entry="hostile.slow_to_load:check")
    return conduct([f"hostile/slow_to_load.py:{name}"], LAWS, options, AuditListener())


def test_both_workers_are_ready_when_the_first_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every law is judged once, by a process that has loaded the target before."""
    report = audit(monkeypatch, "slow")
    assert len(report.verdicts) == len(LAWS)
    assert {one.reason.split()[1] for one in report.verdicts} == {"1"}
    assert len({one.reason.split()[0] for one in report.verdicts}) == 2


def test_what_cannot_be_loaded_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second worker says nothing of it."""
    report = audit(monkeypatch, "never")
    assert not report.verdicts
    assert len(report.problems) == 1


def test_only_what_is_worth_it_is_loaded_ahead() -> None:
    """A target that nobody loads yet comes first; few laws, or a worker that has loaded it, do not ask for it."""
    laws = registry.laws()[:WORTH_LOADING]
    schedule = Schedule([ONE, TWO], laws)
    assert schedule.ahead() is None
    assert schedule.next() == ScheduledPair(ONE, None)
    assert schedule.ahead() == ScheduledPair(ONE, None, ahead=True)
    assert schedule.ahead(ONE) is None
    schedule.loaded(ONE)
    assert schedule.ahead() is None
    few = Schedule([ONE], laws[1:])
    assert few.next() == ScheduledPair(ONE, None)
    assert few.ahead() is None


def test_what_takes_too_long_to_load_is_told_how_it_gets_more() -> None:
    """Of a target that is not loaded in time every law says what would give it more."""
    schedule = Schedule([ONE], registry.laws()[:2])
    verdicts = [*schedule.broken_probe(ONE, Status.TIMEOUT, "it took more than 60 s", 61.0)]
    assert len(verdicts) == 2
    assert all("a larger --timeout gives it more" in one.reason for one in verdicts)


@pytest.mark.parametrize(("law", "times"), [("", 3), ("map/log-det", 1)])
def test_loading_may_take_longer_than_a_pair(law: str, times: int) -> None:
    """No law of a target is judged that is not loaded, so that this has several times as long."""
    pair = ScheduledPair(
        registry.parse_target("torch:BatchNorm1d"), registry.find_law(law) if law else None
    )
    assert Limits(seconds=5.0).cpu_seconds(pair) == 5.0 * times
