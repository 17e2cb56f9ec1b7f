"""What pairs leave in a worker: it goes on with what a target takes, and is replaced where they pile up."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref.auditing import worker
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits

HERE = Path(__file__).parent
LAWS = (
    "map/log-det[inverse]",
    "map/inverse",
    "map/log-det",
    "shape/one-number-per-point[log-det]",
    "map/one-to-one",
    "map/finite",
)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("loaded", True), ("cycles", True), ("scattered", True), ("leaks", False)],
)
def test_a_worker_is_replaced_where_memory_piles_up(
    monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    """A target of half the limit, what only waits to be collected, and what is free between blocks that
    are held, cost no worker and no room of the pairs that follow; what grows with each pair costs
    workers, and none is silenced by it.
    """
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.chdir(HERE)
    options = Options(jobs=1, limits=Limits(memory=300), entry="hostile.leftovers:check")
    report = conduct([f"hostile/leftovers.py:{name}"], LAWS, options, AuditListener())
    processes = {one.reason for one in report.verdicts}
    assert len(report.verdicts) == len(LAWS)
    assert all(reason.isdigit() for reason in processes)
    assert (len(processes) == 1) is kept


@pytest.mark.parametrize(
    ("held", "free", "room"),
    [(0, 0, 300), (100, 0, 200), (100, 60, 200), (100, 200, 60), (300, 90, 0)],
)
def test_what_is_free_counts_where_it_could_be_filled_again(
    held: int, free: int, room: int
) -> None:
    """A process stays below a quarter more than its limit, whatever it fills."""
    taken = (held + free) * worker.MEBIBYTE
    assert worker._room(300, held * worker.MEBIBYTE, taken) == room
