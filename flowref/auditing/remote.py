"""Code that runs on a worker of a cluster: batches of pairs, each pair in a process of a pool, with
the time-outs and memory limits of a local audit. Pools are kept between batches, since a process
takes seconds to import what it needs. The cluster's package is not imported here.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flowref
from flowref.auditing.journal import file_digests, own_digest
from flowref.auditing.pool import Broken, Limits, Pool
from flowref.auditing.schedule import ScheduledPair
from flowref.auditing.selection import library_versions
from flowref.auditing.worker import PairOutcome
from flowref.model import FlowrefError, Target

# Seconds after which an idle pool is ended: its audit may have been killed.
IDLE = 120.0
# Program that prints the versions of this machine, run in the folder of the audit.
WHO = """import json, pickle, sys
path, targets, data = pickle.loads(bytes.fromhex(sys.stdin.read()))
sys.path[:] = path
from flowref.auditing.remote import dependency_versions
print("\\n" + json.dumps(dependency_versions(targets, data)))"""


@dataclass(frozen=True)
class Order:
    """A batch. ``audit``: an id of the audit; ``seconds``: after which no further pair starts;
    ``path`` and ``folder``: module path and working folder of the auditing process.
    """

    audit: str
    pairs: tuple[ScheduledPair, ...]
    seconds: float
    settings: Any
    limits: Limits
    entry: str
    frameworks: tuple[str, ...]
    path: tuple[str, ...]
    folder: str


@dataclass
class Batch:
    """The pairs of an order, as `Pool` expects them."""

    audit: str
    pairs: deque[ScheduledPair]

    @property
    def left(self) -> int:
        """Number of pairs that did not start; 0 once the audit is over."""
        return 0 if self.audit in _pools.over else len(self.pairs)

    def next(
        self, last: Target | None = None, had: Sequence[str] | None = None
    ) -> ScheduledPair | None:
        """The next pair."""
        return self.pairs.popleft() if self.left else None

    def ahead(self, last: Target | None = None) -> ScheduledPair | None:
        """None: each pool here has one worker."""
        return None

    def give_back(self, pair: ScheduledPair) -> None:
        """Return a pair that did not start; it comes next."""
        self.pairs.appendleft(pair)


@dataclass
class Pools:
    """The pools of this process by audit: busy ones, and idle ones with the time since."""

    busy: dict[str, list[Pool]] = field(default_factory=dict)
    idle: dict[str, list[tuple[float, Pool]]] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    timer: threading.Timer | None = None

    def borrow(self, order: Order) -> Pool:
        """Return a pool with one worker, preferably one that has loaded the target."""
        with self.lock:
            waiting = self.idle.setdefault(order.audit, [])
            known = order.pairs[0].target
            waiting.sort(key=lambda one: known in {worker.last for worker in one[1].workers})
            pool = waiting.pop()[1] if waiting else None
            if pool is None:
                path = tuple(dict.fromkeys((*sys.path, *order.path)))
                start = (1, order.settings, order.limits, order.entry, order.frameworks)
                pool = Pool(*start, path=path, folder=order.folder)
            self.busy.setdefault(order.audit, []).append(pool)
            return pool

    def give_back(self, audit: str, pool: Pool) -> None:
        """Return a pool after a batch; it stays idle for a while."""
        with self.lock:
            self.busy[audit].remove(pool)
            if audit not in self.over:
                self.idle.setdefault(audit, []).append((time.monotonic(), pool))
                self.watch()
                return
        pool.close()

    def watch(self) -> None:
        """Start the timer for idle pools; called under the lock."""
        if self.timer is None:
            self.timer = threading.Timer(IDLE, self.reap)
            self.timer.daemon = True
            self.timer.start()

    def reap(self) -> None:
        """End the pools that were idle for too long."""
        old = time.monotonic() - IDLE
        with self.lock:
            self.timer = None
            gone = [pool for all_ in self.idle.values() for since, pool in all_ if since < old]
            for audit, waiting in self.idle.items():
                self.idle[audit] = [one for one in waiting if one[1] not in gone]
            if any(self.idle.values()):
                self.watch()
        for pool in gone:
            pool.close()

    def end(self, audit: str) -> None:
        """End every pool of an audit; this breaks running pairs."""
        with self.lock:
            self.over.add(audit)
            pools = [pool for _, pool in self.idle.pop(audit, [])] + self.busy.get(audit, [])
        for pool in pools:
            pool.close()


_pools = Pools()


def work(order: Order) -> list[PairOutcome | Broken]:
    """Return the outcomes of the first pairs of an order, at least one; the others are returned to
    the schedule. A broken pair ends the batch, since it may affect the others.
    """
    pool = _pools.borrow(order)
    batch = Batch(order.audit, deque(order.pairs))
    results: list[PairOutcome | Broken] = []
    until = time.monotonic() + order.seconds
    try:
        for _, outcome in pool.run(batch):
            if outcome is None:
                continue
            results.append(outcome)
            if isinstance(outcome, Broken) or time.monotonic() > until:
                batch.pairs.clear()
    finally:
        _pools.give_back(order.audit, pool)
    return results


def end(audit: str) -> None:
    """End the processes of an audit."""
    _pools.end(audit)


def dependency_versions(targets: Sequence[Target], data: str) -> dict[str, str]:
    """Return name -> version, or digest of a file, of everything on this machine that verdicts
    depend on.
    """
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "flowref": flowref.__version__,
        "source of flowref": own_digest()[:12],
        **dict(library_versions(targets)),
        **{name: digest[:12] for name, digest in file_digests(targets, data).items()},
    }


def identify(
    targets: Sequence[Target], data: str, path: Sequence[str], folder: str
) -> dict[str, str]:
    """The `dependency_versions` of this machine, from a process in a folder of the audit. Raises:
    `FlowrefError` if the folder does not exist.
    """
    import pickle

    if not os.path.isdir(folder):
        raise FlowrefError(f"there is no folder {folder}, in which the audit runs; share it")
    paths = tuple(dict.fromkeys((*sys.path, *path)))
    asked = subprocess.run(
        [sys.executable, "-c", WHO],
        input=pickle.dumps((paths, tuple(targets), data)).hex(),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise FlowrefError((asked.stderr.strip() or "it does not start").splitlines()[-1])
    answer: dict[str, str] = json.loads(asked.stdout.splitlines()[-1])
    return answer
