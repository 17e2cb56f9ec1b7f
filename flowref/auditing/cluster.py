"""An audit on a cluster of dask.distributed.

The schedule stays here: each thread of a worker gets a batch of pairs of one target, measures as
many as fit into a time slice, and returns the others. Pairs of a lost worker run elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import secrets
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowref.auditing import remote
from flowref.auditing.journal import file_digests
from flowref.auditing.pool import Broken, Limits
from flowref.auditing.remote import Order
from flowref.auditing.schedule import Schedule, ScheduledPair
from flowref.auditing.worker import PairOutcome
from flowref.model import FlowrefError, Status, Target, one_line
from flowref.model.extras import import_optional

# The most pairs of a batch, and seconds after which it hands back what did not start.
MOST, SLICE = 32, 1.0
# Seconds between checks of the workers; to reach the scheduler; without any worker.
LOOK, REACH, ALONE = 1.0, 5.0, 60.0
# A pair on which this many workers were lost counts as their cause.
LOST = 3
TICK, NAP = 0.02, 0.1
# Their messages about lost workers are replaced by our own.
LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.comm")


@dataclass(frozen=True)
class Called:
    """A call made when it is unpickled, so that the scheduler, which only passes bytes, does not
    need this package.
    """

    function: Any
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


@dataclass(eq=False)
class Slot:
    """One thread of a worker, and its current pairs."""

    address: str
    pairs: tuple[ScheduledPair, ...] = ()
    future: Any = None
    last: Target | None = None


@dataclass
class Cluster:
    """The workers of a scheduler, with the interface of `Pool`. A context manager."""

    address: str
    settings: Any
    limits: Limits
    entry: str
    frameworks: tuple[str, ...]
    targets: Sequence[Target]
    audit: str = field(default_factory=lambda: secrets.token_hex(8))
    slots: list[Slot] = field(default_factory=list)
    checking: dict[str, Any] = field(default_factory=dict)
    ended: queue.SimpleQueue[Slot] = field(default_factory=queue.SimpleQueue)
    lost: Counter[str] = field(default_factory=Counter)
    staffed: bool = False

    def __enter__(self) -> Cluster:
        self.client = _client(self.address)
        self.looked, self.seen = 0.0, time.monotonic()
        data = getattr(self.settings, "data", "")
        self.own = remote.dependency_versions(self.targets, data)
        self.files = {"source of flowref", *file_digests(self.targets, data)}
        self.known = (tuple(self.targets), data, tuple(sys.path), os.getcwd())
        return self

    def __exit__(self, *_: object) -> None:
        """End everything that this audit runs on the cluster."""
        with contextlib.suppress(Exception), _quiet():
            self.client.cancel([slot.future for slot in self.slots if slot.future is not None])
            self.client.run(remote.end, self.audit, on_error="ignore")
        with contextlib.suppress(Exception), _quiet():
            self.client.close()

    def run(
        self, schedule: Schedule
    ) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]:
        """Run the pairs of the schedule, as `Pool.run` does.

        Raises: `FlowrefError` if the cluster is lost, or its versions or files differ from this
        machine's.
        """
        while True:
            yield from self._update_workers(schedule)
            for slot in self.slots:
                if slot.future is None and (pairs := self._batch(schedule, slot.last)):
                    self._send(slot, pairs)
                    for pair in pairs:
                        yield pair, None
            if not schedule.left and not any(slot.future for slot in self.slots):
                return
            with contextlib.suppress(queue.Empty):
                yield from self._batch_outcomes(self.ended.get(timeout=TICK), schedule)

    def _batch(self, schedule: Schedule, last: Target | None) -> tuple[ScheduledPair, ...]:
        """Pairs of one target, fewer near the end; probes and pairs on which a worker was lost come
        alone.
        """
        fair = -(-schedule.left // (2 * len(self.slots)))
        pairs: list[ScheduledPair] = []
        while len(pairs) < max(1, min(MOST, fair)):
            pair = schedule.next(last)
            if pair is None:
                break
            if pairs and (pair.target != last or pair.law is None or self.lost[str(pair)]):
                schedule.give_back(pair)
                break
            pairs.append(pair)
            last = pair.target
            if pair.law is None or pair.case is not None or self.lost[str(pair)]:
                break
        return tuple(pairs)

    def _send(self, slot: Slot, pairs: tuple[ScheduledPair, ...]) -> None:
        order = Order(
            self.audit,
            pairs,
            SLICE,
            self.settings,
            self.limits,
            self.entry,
            self.frameworks,
            self.known[2],
            self.known[3],
        )
        slot.pairs, slot.last = pairs, pairs[0].target
        slot.future = self._submit(slot.address, remote.work, order)
        slot.future.add_done_callback(lambda _: self.ended.put(slot))

    def _submit(self, address: str, function: Any, *arguments: Any) -> Any:
        call = pickle.dumps(Called(function, arguments))
        return self.client.submit(pickle.loads, call, workers=[address], pure=False)

    def _batch_outcomes(
        self, slot: Slot, schedule: Schedule
    ) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]:
        """The outcomes of a batch; returned pairs go back to the schedule."""
        future, pairs = slot.future, slot.pairs
        if future is None or not future.done():  # its worker was removed meanwhile
            return
        slot.future, slot.pairs = None, ()
        results = self._results(future)
        if results is None:
            yield from self._retry_lost(pairs, schedule)
            return
        for pair in reversed(pairs[len(results) :]):
            schedule.give_back(pair)
        yield from zip(pairs, results, strict=False)

    def _results(self, future: Any) -> list[PairOutcome | Broken] | None:
        """The outcomes of a batch; None if its worker was lost."""
        from distributed import CancelledError, KilledWorker

        try:
            results: list[PairOutcome | Broken] = future.result()
        except (CancelledError, KilledWorker):
            self._require_scheduler()
            return None
        except FlowrefError:
            raise
        except Exception as error:
            raise FlowrefError(
                f"a worker of {self.address} cannot run pairs: {one_line(error, 300)}"
            ) from None
        return results

    def _require_scheduler(self) -> None:
        """Raise `FlowrefError` if the scheduler is gone."""
        if self.client.status != "running":
            raise FlowrefError(
                f"the scheduler at {self.address} is gone; start it, and the same command goes on"
            )

    def _retry_lost(
        self, pairs: Sequence[ScheduledPair], schedule: Schedule
    ) -> Iterator[tuple[ScheduledPair, Broken]]:
        """Run the pairs of a lost worker again, one by one, up to `LOST` times."""
        for pair in reversed(pairs):
            self.lost[str(pair)] += 1
            if len(pairs) > 1 or self.lost[str(pair)] < LOST:
                schedule.give_back(pair)
            else:
                yield pair, Broken(Status.CRASHED, f"{LOST} workers were lost on it", 0.0)

    def _update_workers(self, schedule: Schedule) -> Iterator[tuple[ScheduledPair, Broken]]:
        """Update the workers: new ones are checked, lost ones removed. Blocks while there are none."""
        while True:
            now = time.monotonic()
            if self.slots and now - self.looked < LOOK:
                return
            self.looked = now
            threads = self._threads()
            for slot in [slot for slot in self.slots if slot.address not in threads]:
                self.slots.remove(slot)
                pairs, future, slot.future, slot.pairs = slot.pairs, slot.future, None, ()
                if future is not None:  # or it would run on a new worker with that address
                    future.cancel()
                yield from self._retry_lost(pairs, schedule)
            here = {slot.address for slot in self.slots}
            for address in set(threads) - here - set(self.checking):
                self.checking[address] = self._submit(address, remote.identify, *self.known)
            self._add_checked_workers(threads)
            if self.slots:
                self.seen, self.staffed = now, True
                return
            if not self.checking and now - self.seen > (ALONE if self.staffed else REACH):
                raise FlowrefError(
                    f"the scheduler at {self.address} has no workers; start some with `dask worker "
                    f"{self.address}`, and the same command goes on"
                )
            time.sleep(NAP)

    def _threads(self) -> dict[str, int]:
        """Worker -> number of threads."""
        try:
            with _quiet():
                threads: dict[str, int] = dict(self.client.nthreads())
        except Exception:
            self._require_scheduler()
            raise FlowrefError(
                f"the scheduler at {self.address} does not answer any more; the same command goes on"
            ) from None
        return threads

    def _add_checked_workers(self, threads: dict[str, int]) -> None:
        """Add the workers whose check succeeded. Raises: `FlowrefError` for a mismatch."""
        for address, future in list(self.checking.items()):
            if address not in threads:
                del self.checking[address]
            elif future.done():
                del self.checking[address]
                self._match(address, future)
                self.slots += [Slot(address) for _ in range(threads[address])]

    def _match(self, address: str, future: Any) -> None:
        from distributed import CancelledError, KilledWorker

        try:
            theirs = future.result()
        except (CancelledError, KilledWorker):
            theirs = self.own  # it is gone, as the next check finds
        except ModuleNotFoundError as error:
            raise FlowrefError(
                f"the worker {address} cannot import {error.name}; install flowref "
                f"{self.own['flowref']} there, as it is here"
            ) from None
        except Exception as error:
            reason = str(error) if isinstance(error, FlowrefError) else one_line(error, 300)
            raise FlowrefError(f"the worker {address} cannot audit: {reason}") from None
        for name, value in self.own.items():
            if (other := theirs.get(name)) == value:
                continue
            if name in self.files:
                mismatch = f"another {name} than this machine, or none"
            else:
                mismatch = (
                    f"{f'{name} {other}' if other else f'no {name}'}, and this machine has {value}"
                )
            raise FlowrefError(
                f"the worker {address} has {mismatch}; make them alike, since verdicts depend on it"
            )


def _client(address: str) -> Any:
    """A connection. Raises: `FlowrefError` in one sentence."""
    cluster = import_optional("distributed", "dask", "--dask")
    if "://" not in address:
        raise FlowrefError(
            f"{address!r} is no address of a scheduler; expected one such as tcp://host:8786"
        )
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with _quiet():
            return cluster.Client(address, timeout=REACH, set_as_default=False)
    except Exception as error:
        reason = one_line(error, 200) if isinstance(error, ValueError) else "nothing answers"
        raise FlowrefError(
            f"the scheduler at {address} cannot be reached ({reason}); start one with `dask "
            "scheduler`, or check the address"
        ) from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of the cluster's package; mismatches are checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
