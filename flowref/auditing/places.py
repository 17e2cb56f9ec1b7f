"""Executors of an audit: this process, a pool of processes, or a cluster. All take pairs from a
schedule and yield their outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flowref.auditing.cluster import Cluster
from flowref.auditing.deadline import OutOfTime, deadline
from flowref.auditing.options import Options
from flowref.auditing.pool import Broken, Pool
from flowref.auditing.schedule import Schedule, ScheduledPair
from flowref.auditing.worker import (
    Entry,
    PairOutcome,
    Replay,
    guarded,
    import_frameworks,
    law_id_or_self,
    resolve,
)
from flowref.model import Law, Status, Target


@dataclass(frozen=True)
class Here:
    """This process, without memory limit and without protection from targets."""

    settings: Any
    entry: str
    frameworks: tuple[str, ...]

    def __enter__(self) -> Here:
        import_frameworks(self.frameworks)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def run(
        self, schedule: Schedule
    ) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]:
        """Run the pairs of the schedule, as `Pool.run` does."""
        last, entry = None, resolve(self.entry)
        while (pair := schedule.next(last)) is not None:
            yield pair, None
            last, law = pair.target, law_id_or_self(pair.law) if pair.law else None
            how = self.settings if pair.case is None else Replay(pair.case, self.settings)
            yield pair, bounded(entry, pair.target, law, how, self.settings.seconds)


def bounded(
    entry: Entry, target: Target, law: str | Law | None, how: Any, seconds: float
) -> PairOutcome | Broken:
    """Run ``entry`` here as `guarded` does, for at most ``seconds`` of CPU time if the platform can
    interrupt it.
    """
    try:
        with deadline(seconds):
            return guarded(entry, target, law, how)
    except OutOfTime:
        reason = f"it took more than {seconds:g} s of CPU time"
        return Broken(Status.TIMEOUT, reason, seconds)


def audit_executor(
    options: Options, settings: Any, frameworks: tuple[str, ...], targets: Sequence[Target]
) -> Here | Pool | Cluster:
    """Return the executor by the options: a context manager that ends every process on exit."""
    if options.dask:
        how = (settings, options.limits, options.entry, frameworks)
        return Cluster(options.dask, *how, targets)
    if options.jobs:
        return Pool(options.jobs, settings, options.limits, options.entry, frameworks)
    return Here(settings, options.entry, frameworks)
