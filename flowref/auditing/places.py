"""Where the pairs of an audit run: in this process, in processes of a pool, or on a cluster. All three
take pairs from a schedule and yield what came of them.
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
    """This process: no memory limit, and no protection from what targets do."""

    settings: Any
    entry: str
    frameworks: tuple[str, ...]

    def __enter__(self) -> Here:
        import_frameworks(self.frameworks)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left."""

    def run(
        self, schedule: Schedule
    ) -> Iterator[tuple[ScheduledPair, PairOutcome | Broken | None]]:
        """What `Pool.run` yields."""
        last, entry = None, resolve(self.entry)
        while (pair := schedule.next(last)) is not None:
            yield pair, None
            last, law = pair.target, law_id_or_self(pair.law) if pair.law else None
            how = self.settings if pair.case is None else Replay(pair.case, self.settings)
            yield pair, bounded(entry, pair.target, law, how, self.settings.seconds)


def bounded(
    entry: Entry, target: Target, law: str | Law | None, how: Any, seconds: float
) -> PairOutcome | Broken:
    """Run ``entry`` here as `guarded` does, for so many seconds of processor time at most, where the
    platform can end it.
    """
    try:
        with deadline(seconds):
            return guarded(entry, target, law, how)
    except OutOfTime:
        reason = f"it took more than {seconds:g} s of processor time"
        return Broken(Status.TIMEOUT, reason, seconds)


def audit_executor(
    options: Options, settings: Any, frameworks: tuple[str, ...], targets: Sequence[Target]
) -> Here | Pool | Cluster:
    """Where an audit runs, by its options: a context manager, whose end ends every process."""
    if options.dask:
        how = (settings, options.limits, options.entry, frameworks)
        return Cluster(options.dask, *how, targets)
    if options.jobs:
        return Pool(options.jobs, settings, options.limits, options.entry, frameworks)
    return Here(settings, options.entry, frameworks)
