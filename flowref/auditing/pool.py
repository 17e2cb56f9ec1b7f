"""Worker processes with a hard time-out and a memory limit for each pair.

One process, one pipe, one pair at a time: whatever ends a process is charged to its current pair,
and nothing is shared that a dying process could leave locked or half written.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from flowref.auditing.schedule import ScheduledPair
from flowref.auditing.usage import free, peak, resident, usage
from flowref.auditing.worker import GROWN, MEBIBYTE, PairOutcome, Replay, Start, outcome_of
from flowref.model import FlowrefError, Status, Target
from flowref.reporting.contents import FREE, Expense

CHECK = "flowref.auditing.worker:check_pair"
BOOT = """import json, sys
sys.path[:] = json.loads(sys.argv[1])["path"]
from flowref.auditing.worker import main
main(sys.argv[1])"""
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# The C++ of torch writes each of its warnings to standard error, past Python's filters.
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
# Seconds for a start: on an overloaded machine, importing a framework took four minutes.
STARTING = 900.0
TICK = 0.02


# Multiple of a pair's seconds for loading a target.
LOADING = 3


@dataclass(frozen=True)
class Limits:
    """The limits of one pair: CPU seconds, and MiB beyond the imported libraries.

    ``asleep``: wall time is limited to this multiple of the seconds, for code that sleeps; a busy
    machine is no fault of the pair. ``stretched``: pairs that report how much memory they need may
    finally get it, if the machine has it free.
    """

    seconds: float = 60.0
    memory: int = 2048
    asleep: float = 10.0
    stretched: bool = False

    def cpu_seconds(self, pair: ScheduledPair | None) -> float:
        """CPU seconds of a pair; several times as many for loading a target, without which no law
        can be judged.
        """
        loads = pair is not None and pair.law is None
        return self.seconds * (LOADING if loads else 1)

    def granted(self, pair: ScheduledPair) -> int:
        """MiB of memory of a pair."""
        return pair.memory or self.memory


@dataclass(frozen=True)
class Broken:
    """The process of a pair ended."""

    status: Status
    reason: str
    seconds: float
    expense: Expense = FREE


# A worker that has grown too far (`GROWN`) is replaced between two pairs, since leftovers of earlier pairs
# are no fault of the next. The first pair of a target mostly leaves the target itself, which a new worker
# would have to load again: it may stay up to LOADED of the limit, plus ADDED, or AGAIN times the target
# for another state and a copy.
LOADED, ADDED, AGAIN = 0.7, 0.15, 2
# A worker above this share of its limit is killed: it evaded the limit inside the process, which would
# have raised MemoryError.
KILLED = 1.25
# Share of the free memory for pairs that need more than their limit.
FREE_TAKEN = 0.8


@dataclass(eq=False)
class Worker:
    """The parent's side of one process."""

    process: subprocess.Popen[bytes]
    began: float
    ready: bool = False
    baseline: int = 0
    pair: ScheduledPair | None = None
    last: Target | None = None
    had: tuple[str, ...] = ()
    settled: tuple[Target, int] | None = None
    granted: int = 0
    used: float = 0.0
    spent: float = 0.0
    awake: float = 0.0
    retired: bool = False
    listener: threading.Thread | None = None


class Pairs(Protocol):
    """A source of pairs."""

    @property
    def left(self) -> int:
        """Number of pairs not handed out."""
        ...

    def next(
        self, last: Target | None = None, had: Sequence[str] | None = None
    ) -> ScheduledPair | None:
        """Return a pair for a worker whose last one was about ``last``, and that measured pairs of
        the kinds ``had`` (see `ScheduledPair`), the latest last; None if none can start now.
        """
        ...

    def ahead(self, last: Target | None = None) -> ScheduledPair | None:
        """A target to load for an idle worker; None if there is none."""
        ...

    def give_back(self, pair: ScheduledPair) -> None:
        """Return a pair that did not start."""
        ...


class Pool:
    """Up to ``jobs`` workers that take pairs from a schedule. A context manager; exit ends every
    worker. ``path``: their module path, ``folder``: their working folder; by default those of this
    process.
    """

    def __init__(
        self,
        jobs: int,
        settings: Any,
        limits: Limits,
        entry: str = CHECK,
        frameworks: tuple[str, ...] = (),
        *,
        path: tuple[str, ...] | None = None,
        folder: str | None = None,
    ) -> None:
        if not sys.executable:
            raise FlowrefError(
                "this Python does not know its own executable, so it cannot start workers; audit "
                "in-process"
            )
        self.jobs, self.settings, self.limits, self.entry = jobs, settings, limits, entry
        self.frameworks, self.path, self.folder = frameworks, path, folder
        self.workers: list[Worker] = []
        self.messages: queue.SimpleQueue[tuple[Worker, bytes]] = queue.SimpleQueue()
        self.failed_starts = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker."""
        for worker in list(self.workers):
            self._end(worker)

    def run(self, schedule: Pairs) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]:
        """Run the pairs of the schedule: yields (pair, None) when a pair starts, and (pair,
        outcome) when it ends. The caller enters each outcome in the schedule before it continues.
        """
        while True:
            self._staff(schedule)
            for worker in self.workers:
                if not worker.ready or worker.pair is not None:
                    continue
                pair = schedule.next(worker.last, worker.had) or schedule.ahead(worker.last)
                if pair is not None:
                    if not self._has_room(worker, pair):
                        if any(one.pair for one in self.workers):  # whose end may free memory
                            schedule.give_back(pair)
                        else:
                            yield pair, PairOutcome(pair.refused)
                        continue
                    self._give(worker, pair)
                    yield pair, None
            pairs = [worker.pair for worker in self.workers if worker.pair is not None]
            if not schedule.left and all(pair.ahead for pair in pairs):
                return
            with contextlib.suppress(queue.Empty):
                worker, line = self.messages.get(timeout=TICK)
                yield from self._message_outcome(worker, line)
                continue
            for worker in list(self.workers):
                yield from self._watch(worker)

    def _has_room(self, worker: Worker, pair: ScheduledPair) -> bool:
        return not pair.memory or self._leaves_room(worker, pair.memory)

    def _leaves_room(self, worker: Worker, memory: int) -> bool:
        """Whether ``memory`` MiB are free beyond what the running pairs may still take."""
        others = [one for one in self.workers if one.pair is not None]
        granted = sum(
            max(0, one.baseline + one.granted * MEBIBYTE - resident(one.process.pid))
            for one in others
        )
        asked = memory * MEBIBYTE - (resident(worker.process.pid) - worker.baseline)
        return asked + granted <= FREE_TAKEN * free()

    def _staff(self, schedule: Pairs) -> None:
        busy = sum(worker.pair is not None for worker in self.workers)
        while len(self.workers) < min(self.jobs, busy + schedule.left):
            self.workers.append(self._start())

    def _start(self) -> Worker:
        path = tuple(sys.path) if self.path is None else self.path
        start = Start(path, self.entry, self.limits.memory, os.getpid(), self.frameworks)
        process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps(start.__dict__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Libraries read thread counts when they are loaded, so they are set before the start.
            env={**os.environ, **dict.fromkeys(THREADS, "1"), **QUIET, "PYTHONHASHSEED": "0"},
            start_new_session=os.name == "posix",
            cwd=self.folder,
        )
        worker = Worker(process, time.monotonic())
        worker.listener = threading.Thread(target=self._listen, args=(worker,), daemon=True)
        worker.listener.start()
        return worker

    def _listen(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        with contextlib.suppress(ValueError, OSError), worker.process.stdout:
            for line in worker.process.stdout:
                self.messages.put((worker, line))

    def _give(self, worker: Worker, pair: ScheduledPair) -> None:
        if pair.target != worker.last:
            worker.had = ()
        if pair.kin:
            worker.had = (*(kin for kin in worker.had if kin != pair.kin), pair.kin)
        worker.pair, worker.last, worker.began = pair, pair.target, time.monotonic()
        room = pair.memory or (pair.room if self._leaves_room(worker, pair.room) else 0)
        worker.granted = max(room, self.limits.granted(pair))
        before = usage(worker.process.pid)
        worker.used = 0.0 if before is None else before.seconds
        worker.spent, worker.awake = 0.0, worker.began
        how = replace(self.settings, memory=pair.memory) if pair.memory else self.settings
        how = how if pair.case is None else Replay(pair.case, how)
        order = (pair.target, pair.law.id if pair.law else None, how, room)
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):  # it died meanwhile, as the watch will find
            worker.process.stdin.write(pickle.dumps(order))
            worker.process.stdin.flush()

    def _message_outcome(
        self, worker: Worker, line: bytes
    ) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken]]:
        """The outcome in a message; messages of ended workers are ignored."""
        if worker.retired:
            return
        try:
            message = json.loads(line)
            if "ready" in message:
                worker.ready, worker.baseline, self.failed_starts = True, int(message["ready"]), 0
                return
            outcome: PairOutcome | Broken = outcome_of(message)
        except (ValueError, KeyError, TypeError, FlowrefError):  # the target wrote into the pipe
            self._end(worker)
            outcome = Broken(
                Status.CRASHED, "the process answered with garbage", time.monotonic() - worker.began
            )
        pair, worker.pair = worker.pair, None
        if not worker.retired and self._has_leftovers(worker):
            self._end(worker)
        if pair is not None:
            yield pair, outcome

    def _watch(self, worker: Worker) -> Iterator[tuple[ScheduledPair, Broken]]:
        """End a worker that died, or exceeds its time or memory."""
        if worker.retired:
            return
        code = worker.process.poll()
        age = time.monotonic() - worker.began
        broken = None
        if code is not None:
            assert worker.listener is not None
            worker.listener.join(1.0)
            if not self.messages.empty():  # it may have answered before it died
                return
            broken = Broken(Status.CRASHED, _exit_text(code), age)
        elif worker.pair is not None and (reason := self._overtime(worker)):
            broken = Broken(Status.TIMEOUT, reason, age)
        elif worker.pair is not None and self._overweight(worker, KILLED):
            broken = Broken(
                Status.CRASHED, f"memory limit: it took more than {worker.granted} MiB", age
            )
        elif not worker.ready and age > STARTING:
            broken = Broken(Status.CRASHED, "the worker did not start", age)
        if broken is None:
            return
        broken = replace(broken, expense=self._expense(worker))
        self._end(worker)
        if worker.pair is not None:
            yield worker.pair, broken
        elif not worker.ready:
            self.failed_starts += 1
            if self.failed_starts >= 3:
                raise FlowrefError(
                    f"worker processes do not start ({broken.reason}); try --in-process"
                )

    def _expense(self, worker: Worker) -> Expense:
        """The cost of a worker's current pair so far."""
        taken = usage(worker.process.pid)
        spent = 0.0 if taken is None else taken.seconds - worker.used
        return Expense(max(spent, 0.0), peak(worker.process.pid))

    def _overtime(self, worker: Worker) -> str:
        """Why a worker's pair exceeded its time; empty if it did not. The seconds are CPU time; if
        that is unknown or the process sleeps, wall time: at once, or a multiple with interruptions.
        """
        seconds, now = self.limits.seconds, time.monotonic()
        most = self.limits.cpu_seconds(worker.pair)
        taken = usage(worker.process.pid)
        spent = now - worker.began if taken is None else taken.seconds - worker.used
        if spent > most:
            return f"it took more than {most:g} s"
        if taken is None or not taken.sleeping or spent > worker.spent:
            worker.awake, worker.spent = now, spent
        if now - worker.awake > seconds:
            return f"it slept for more than {seconds:g} s"
        if now - worker.began > seconds * self.limits.asleep:
            return f"it took more than {seconds * self.limits.asleep:g} s, asleep for most of them"
        return ""

    def _has_leftovers(self, worker: Worker) -> bool:
        """Whether finished pairs left too much memory, beyond that of the target."""
        size, limit = resident(worker.process.pid), worker.granted * MEBIBYTE
        if worker.last is not None and (worker.settled is None or worker.settled[0] != worker.last):
            worker.settled = worker.last, size
        loaded = 0 if worker.settled is None else worker.settled[1]
        added = max(ADDED * limit, AGAIN * (loaded - worker.baseline))
        own = min(loaded + added, worker.baseline + LOADED * limit)
        return bool(worker.baseline) and size > max(worker.baseline + GROWN * limit, own)

    def _overweight(self, worker: Worker, share: float) -> bool:
        allowed = worker.baseline + share * worker.granted * MEBIBYTE
        return bool(worker.baseline) and resident(worker.process.pid) > allowed

    def _end(self, worker: Worker) -> None:
        """Kill a worker with its child processes, and remove it."""
        worker.retired = True
        if worker in self.workers:
            self.workers.remove(worker)
        with contextlib.suppress(OSError):
            if os.name == "posix":  # it leads a session of its own
                os.killpg(worker.process.pid, signal.SIGKILL)
            else:
                worker.process.kill()
        worker.process.wait()
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):
            worker.process.stdin.close()
        if worker.listener is not None:
            worker.listener.join(1.0)


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"the process ended itself with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"the process was killed by {name}"
