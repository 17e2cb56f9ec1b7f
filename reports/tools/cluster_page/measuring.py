"""One audit timed: how many pairs a second, from the first verdict to the last."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cluster_page.standin import spec
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.selection import select_laws
from flowref.model import Verdict

POOL, CLUSTER = "pool", "cluster"
WORKERS = (1, 2, 4)
# Milliseconds of a pair -> targets and laws of each.
PAIRS = {0: (8, 120), 10: (8, 40), 50: (8, 15)}
REAL = "flows"
FLOWS = (
    "nflows:AffineCouplingTransform",
    "nflows:LULinear",
    "nflows:SVDLinear",
    "nflows:QRLinear",
    "nflows:NaiveLinear",
    "nflows:HouseholderSequence",
    "nflows:Sigmoid",
    "nflows:LeakyReLU",
)
LAWS = "map/*,mode/*"


@dataclass(frozen=True)
class Point:
    """``pairs``: milliseconds of a stand-in's, or `REAL`; ``how``: pool or cluster. ``seconds`` from
    the first verdict to the last of ``number``, ``before``: until the first one.
    """

    pairs: str
    how: str
    workers: int
    number: int
    seconds: float
    before: float

    @property
    def throughput(self) -> float:
        """Pairs a second."""
        return self.number / self.seconds


class Clock(AuditListener):
    """Notes when verdicts come."""

    def __init__(self) -> None:
        self.began, self.times = time.monotonic(), list[float]()

    def verdict(self, verdict: Verdict) -> None:
        """Note the time."""
        self.times.append(time.monotonic())


def timed(pairs: str, how: str, workers: int, address: str) -> Point:
    """One audit."""
    dask = address if how == CLUSTER else ""
    if pairs == REAL:
        targets, laws = list(FLOWS), [law.id for law in select_laws(LAWS)]
        options = Options(profile="quick", jobs=workers, dask=dask)
    else:
        number, width = PAIRS[int(pairs)]
        targets = [spec(int(pairs), index) for index in range(number)]
        laws = [law.id for law in select_laws(())][:width]
        options = Options(jobs=workers, dask=dask, entry="cluster_page.standin:check")
    clock = Clock()
    conduct(targets, laws, options, clock)
    first, *_, last = clock.times
    return Point(pairs, how, workers, len(clock.times) - 1, last - first, first - clock.began)


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a cluster of this machine, a process a worker."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=60
    ) as local:
        yield local.scheduler_address


def measure(say: Callable[[str], Any]) -> list[Point]:
    """All points, the pool beside the cluster."""
    points = []
    for workers in WORKERS:
        with cluster(workers) as address:
            for pairs in (*map(str, PAIRS), REAL):
                for how in (POOL, CLUSTER):
                    point = timed(pairs, how, workers, address)
                    points.append(point)
                    say(f"{pairs:>5} {how:<7} {workers} workers: {point.throughput:.1f} pairs/s")
    return points


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load": round(os.getloadavg()[0], 1),
    }
