"""An audit on a cluster: the verdicts of one on this machine, whatever becomes of workers."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from flowref.auditing import cluster as client
from flowref.auditing import remote
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.auditing.schedule import ScheduledPair
from flowref.auditing.selection import select_laws
from flowref.cli import main
from flowref.model import FlowrefError, Status, Target, Verdict
from rows import DEEP

distributed = pytest.importorskip("distributed")

HERE = Path(__file__).parent
LAWS = [
    law.id
    for law in select_laws(
        "map/inverse[],map/log-det[],map/log-det[antisymmetry],map/log-det[inverse],map/log-det[batch],map/log-det-unbiased[]"
    )
]
FATAL = {
    "segfault": (Status.CRASHED, "SIGSEGV"),
    "endless_in_c": (Status.TIMEOUT, "more than 3 s"),
    "memory_bomb": (Status.INCONCLUSIVE, "more than 300 MiB: --memory 600"),
    "unlimited_bomb": (Status.CRASHED, "memory limit"),
}
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers, each a process with a nanny, which starts it again."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=60
    ) as local:
        yield local


@pytest.fixture(scope="module")
def options(cluster: Any) -> Iterator[Options]:
    """Options under which a stand-in is called on the cluster instead of the check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.chdir(HERE)
        limits = Limits(seconds=3, memory=300)
        yield Options(
            jobs=2, limits=limits, entry="hostile.entry:check", dask=cluster.scheduler_address
        )


def spec(name: str) -> str:
    """The spec of a stand-in's target."""
    return f"hostile/entry.py:{name}"


def at_home(options: Options) -> Options:
    """The same in one process, one pair after the other."""
    return replace(options, jobs=0, dask="")


class After(AuditListener):
    """Does something once so many verdicts are there."""

    def __init__(self, number: int, deed: Any) -> None:
        self.left, self.deed = number, deed

    def verdict(self, verdict: Verdict) -> None:
        """Count down."""
        self.left -= 1
        if self.left == 0:
            self.deed()


def processes(local: Any) -> list[psutil.Process]:
    """The processes of flowref's that workers have started."""
    return [
        child
        for nanny in local.workers.values()
        for child in psutil.Process(nanny.pid).children(recursive=True)
        if "flowref.auditing.worker" in " ".join(child.cmdline())
    ]


def test_a_cluster_gives_the_verdicts_of_one_process(cluster: Any) -> None:
    """Real flows and laws: the report is that of the audit in this process, to the last bit."""
    targets = ["torch:AffineTransform", "nflows:AffineCouplingTransform"]
    options = Options(profile="quick", jobs=2, dask=cluster.scheduler_address)
    there = conduct(targets, LAWS[:6], options, AuditListener())
    here = conduct(targets, LAWS[:6], at_home(options), AuditListener())
    assert here.counts[Status.HOLDS] > 5
    assert there.without_time() == here.without_time()
    assert all(there.expenses[target].seconds > 0 for target in targets)


@DEEP
def test_limits_hold_on_a_cluster(options: Options) -> None:
    """A segmentation fault, an endless loop and memory bombs cost their own pair one verdict, as in
    the pool, and the workers of the cluster live on.
    """
    report = conduct([spec(name) for name in (*FATAL, "innocent")], LAWS, options, AuditListener())
    for name, (status, reason) in FATAL.items():
        first, *others = report.of(spec(name))
        assert first.status is status
        assert reason in first.reason
        assert {verdict.status for verdict in others} == {Status.HOLDS}
    assert {verdict.status for verdict in report.of(spec("innocent"))} == {Status.HOLDS}


def test_a_worker_that_is_killed_loses_nothing(
    cluster: Any, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two workers dies with pairs in hand: they are measured again, and every verdict
    arrives.
    """
    targets = [spec("naps"), *(spec(f"innocent_{n}") for n in range(6))]
    slow, addresses = f"{spec('naps')} {LAWS[0]}", []
    send = client.Cluster._send

    def kill(address: str) -> None:
        (nanny,) = [one for one in cluster.workers.values() if one.worker_address == address]
        os.kill(nanny.pid, signal.SIGKILL)

    def spied(self: client.Cluster, slot: client.Slot, pairs: tuple[ScheduledPair, ...]) -> None:
        send(self, slot, pairs)
        if slow in map(str, pairs):
            addresses.append(slot.address)
            if len(addresses) == 1:  # which naps for four seconds
                threading.Timer(1.0, kill, [slot.address]).start()

    monkeypatch.setattr(client.Cluster, "_send", spied)
    report = conduct(targets, LAWS, options, AuditListener())
    assert len(addresses) == 2
    assert addresses[0] != addresses[1]
    here = conduct(targets, LAWS, at_home(options), AuditListener())
    assert report.without_time() == here.without_time()


@DEEP
def test_an_interrupted_audit_goes_on(cluster: Any, options: Options, tmp_path: Path) -> None:
    """Ctrl-C ends it with a report that says so and leaves no process on any worker; the next run
    measures what is missing, on the cluster or at home.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    targets = [spec(f"innocent_{n}") for n in range(6)]
    kept = replace(options, folder=tmp_path)
    report = conduct(targets, LAWS, kept, After(2 * len(LAWS), interrupt))
    assert not report.complete
    assert report.counts[Status.NOT_RUN] > 0
    until = time.monotonic() + 10
    while processes(cluster) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes(cluster) == []
    earlier: list[int] = []

    class Begun(AuditListener):
        def begin(self, targets: Any, laws: Any, number: int) -> None:
            earlier.append(number)

    again = conduct(targets, LAWS, at_home(kept), Begun())
    assert again.complete
    assert earlier[0] >= 2 * len(LAWS)
    whole = conduct(targets, LAWS, at_home(options), AuditListener())
    assert again.without_time() == whole.without_time()


def refused(options: Options) -> str:
    """The one sentence with which an audit is refused."""
    with pytest.raises(FlowrefError) as caught:
        conduct([spec("innocent")], LAWS, options, AuditListener())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_workers_that_differ_are_refused(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of a library, or none, another source of flowref, another file: verdicts
    could differ, and the sentence says in what and where.
    """
    here = remote.dependency_versions((), "")
    for name, said in (
        ("numpy", "has numpy 2"),
        ("absent", "has no absent, and this machine has 0.0"),
        (spec("innocent"), "has another hostile/entry.py:innocent than this machine"),
    ):
        own = {**here, name: "0.0"}
        monkeypatch.setattr(remote, "dependency_versions", lambda *_, own=own: own)
        assert said in refused(options)


def test_a_machine_without_the_folder_says_so(tmp_path: Path) -> None:
    """The folder in which an audit runs has to be there; where it is, a process in it caught_by_all the
    versions that this one sees, and the digests of its files.
    """
    target = Target("user", "flows.py:make")
    with pytest.raises(FlowrefError, match=r"there is no folder .*gone"):
        remote.identify([target], "", (), str(tmp_path / "gone"))
    (tmp_path / "flows.py").write_text("make = 3")
    there = remote.identify([target], "", (), str(tmp_path))
    here = remote.dependency_versions([target], "")
    differing = {name for name in there if there[name] != here[name]}
    assert differing == {"flows.py:make"}


def test_pools_that_nobody_uses_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed audit left on a worker ends by itself, and what is in use does not."""
    monkeypatch.setattr(remote, "IDLE", 0.05)
    pools, order = remote.Pools(), SimpleNamespace(audit="a", pairs=(SimpleNamespace(target=None),))
    old, new = (SimpleNamespace(workers=[], closed=False) for _ in range(2))
    for pool in (old, new):
        pool.close = functools.partial(setattr, pool, "closed", True)
        pools.busy.setdefault("a", []).append(pool)  # type: ignore[arg-type]  # a stand-in
    pools.give_back("a", old)  # type: ignore[arg-type]  # a stand-in
    until = time.monotonic() + 5
    while not old.closed and time.monotonic() < until:
        time.sleep(0.01)
    assert (old.closed, new.closed) == (True, False)
    monkeypatch.setattr(remote, "IDLE", 600.0)
    pools.give_back("a", new)  # type: ignore[arg-type]  # a stand-in
    assert pools.borrow(order) is new  # type: ignore[arg-type, comparison-overlap]  # stand-ins
    pools.end("a")
    assert new.closed


def test_a_scheduler_that_cannot_be_reached_exits_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens, no address, two ways at once: one sentence, exit 2."""
    monkeypatch.setattr(client, "REACH", 0.5)
    run = CliRunner().invoke
    for more, said in (
        (("--dask", "tcp://127.0.0.1:9"), "cannot be reached (nothing answers)"),
        (("--dask", "127.0.0.1:9"), "is no address of a scheduler"),
        (("--dask", "foo://bar"), "cannot be reached"),
        (("--dask", "tcp://127.0.0.1:9", "--in-process"), "exclude each other"),
    ):
        done = run(main, ["audit", "torch:AffineTransform", "--fresh", *more])
        assert done.exit_code == 2
        assert said in done.output, done.output


def test_a_cluster_without_workers_is_one_sentence(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that nobody works for is no endless wait."""
    monkeypatch.setattr(client, "REACH", 2.0)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        assert "has no workers" in refused(replace(options, dask=empty.scheduler_address))
