"""What needs more memory than a pair may take comes last, with as much as the machine has free; unless
somebody said how much it may be.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowref.auditing import audit_run, pool, usage
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.auditing.schedule import Schedule, ScheduledPair
from flowref.auditing.selection import select_laws
from flowref.checking import Settings
from flowref.cli import main
from flowref.model import Status, Target, Verdict
from flowref.model.budget import MEBIBYTE

HERE = Path(__file__).parent
LAWS = ("map/log-det[inverse]", "map/log-det", "shape/one-number-per-point[log-det]")
NEEDS = 700


class Order(AuditListener):
    """The laws in the order in which their verdicts came."""

    def __init__(self) -> None:
        self.laws: list[str] = []

    def verdict(self, verdict: Verdict) -> None:
        """Keep it."""
        self.laws.append(verdict.law)


def verdicts(
    limits: Limits, jobs: int = 1, listener: AuditListener | None = None
) -> dict[str, Verdict]:
    """Of a target of which two laws need `NEEDS` mebibytes."""
    options = Options(jobs=jobs, limits=limits, entry="hostile.demanding:check")
    report = conduct(
        [f"hostile/demanding.py:demanding?needs={NEEDS}"],
        LAWS,
        options,
        listener or AuditListener(),
    )
    return {one.law: one for one in report.verdicts}


@pytest.fixture(autouse=True)
def _hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(HERE)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_needs_more_is_measured_last(jobs: int) -> None:
    """It is given what it asks for, in a worker whose limit was less, and nothing else is."""
    order = Order()
    found = verdicts(Limits(memory=300, stretched=True), jobs, order)
    assert {law: one.status for law, one in found.items()} == dict.fromkeys(LAWS, Status.HOLDS)
    granted: Mapping[str, str] = {law: one.reason for law, one in found.items()}
    assert granted["shape/one-number-per-point[log-det]"] == "with 300"
    assert granted["map/log-det"] == f"with {NEEDS}"
    assert order.laws[0] == "shape/one-number-per-point[log-det]"
    assert len(order.laws) == len(LAWS)


def test_what_somebody_said_is_never_exceeded() -> None:
    """A limit that is given is one."""
    found = verdicts(Limits(memory=300))
    assert found["map/log-det"].status is Status.INCONCLUSIVE
    assert f"--memory {NEEDS}" in found["map/log-det"].reason


@pytest.mark.parametrize("where", ["total_memory", "free"])
def test_what_the_machine_has_not_is_not_tried(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Neither where it has less at all nor where others take it now: the first verdict stands."""
    monkeypatch.setattr(
        audit_run if where == "total_memory" else pool, where, lambda: 500 * MEBIBYTE
    )
    found = verdicts(Limits(memory=300, stretched=True))
    assert found["map/log-det"].status is Status.INCONCLUSIVE
    assert f"--memory {NEEDS}" in found["map/log-det"].reason


def test_what_waits_when_an_audit_ends_keeps_its_verdict() -> None:
    """Pairs that are given up while they wait for memory are as they were judged."""
    target, laws = Target("user", "hostile/demanding.py:demanding"), select_laws(LAWS)
    schedule = Schedule([target], laws)
    assert schedule.next() is not None
    schedule.loaded(target)
    pair = schedule.next(target)
    assert pair is not None
    refused = pair.verdict(Status.INCONCLUSIVE, "it needs 1 GiB: --memory 1024")
    schedule.postpone(pair, refused, 1024)
    assert schedule.left == len(LAWS)
    ended = list(schedule.abandon_all("no time"))
    assert refused in ended
    assert len(ended) == len(LAWS)
    assert not schedule.left


def test_what_one_pair_needed_others_of_its_target_have_room_for() -> None:
    """They are planned as before, and need not be measured twice for want of room."""
    one, two = Target("user", "a.py:one"), Target("user", "a.py:two")
    schedule = Schedule([one, two], select_laws(LAWS))
    for target in (one, two):
        assert schedule.next() == ScheduledPair(target, None)
        schedule.loaded(target)
    pair = schedule.next(one)
    assert pair is not None and pair.room == 0
    schedule.postpone(pair, pair.verdict(Status.INCONCLUSIVE, "--memory 1024"), 1024)
    rooms = [later.room for later in (schedule.next(one), schedule.next(two)) if later is not None]
    assert rooms == [1024, 0]


@pytest.mark.parametrize(("free", "granted"), [(8 * 1024, 1024), (512, 300)])
def test_room_is_granted_where_the_machine_has_it(
    free: int, granted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere the pair has what every pair has, and is not held back."""
    monkeypatch.setattr(pool, "free", lambda: free * MEBIBYTE)
    target, law = Target("user", "hostile/demanding.py:demanding"), select_laws(LAWS)[0]
    with pool.Pool(1, Settings(), Limits(memory=300)) as workers:
        worker = workers._start()
        workers.workers.append(worker)
        workers._give(worker, ScheduledPair(target, law, room=1024))
        assert worker.granted == granted


def test_memory_is_read_from_the_system() -> None:
    """Free memory is less than all of it, and more than nothing."""
    assert 0 < usage.free() < usage.total_memory()


def test_a_container_has_what_its_group_grants(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Less what is held, of which files that are kept to be read again count as free."""
    monkeypatch.setattr(usage, "GROUP", str(tmp_path))
    (tmp_path / "memory.max").write_text(f"{64 * MEBIBYTE}\n")
    (tmp_path / "memory.current").write_text(f"{30 * MEBIBYTE}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {10 * MEBIBYTE}\n")
    assert usage.total_memory() == 64 * MEBIBYTE
    assert usage.free() == 44 * MEBIBYTE


@pytest.mark.parametrize(("words", "stretched"), [((), True), (("--memory", "2048"), False)])
def test_the_command_line_says_whether_somebody_said(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], stretched: bool
) -> None:
    """The default is no word of the user's; the same number, given, is one."""
    seen = []

    def conducted(_: object, __: object, options: Options, ___: object) -> None:
        seen.append(options.limits)
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_run, "conduct", conducted)
    CliRunner().invoke(main, ["audit", "nflows", *words])
    assert [one.stretched for one in seen] == [stretched]


def test_what_stayed_is_not_looked_through_after_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker lets go of what nobody holds when it has grown, and again when it has grown further: what
    a target holds is not looked through for nothing.
    """
    collected: list[int] = []
    sizes = iter([50, 900, 700, 720, 800, 710, 300])
    monkeypatch.setattr(usage, "resident", lambda pid: next(sizes) * MEBIBYTE)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(0))
    kept, told = 0, []
    for _ in range(5):
        kept = usage.shed(400 * MEBIBYTE, kept)
        told.append((kept // MEBIBYTE, len(collected)))
    assert told == [(0, 0), (700, 1), (700, 1), (710, 2), (300, 2)]
