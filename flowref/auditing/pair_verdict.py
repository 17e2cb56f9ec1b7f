"""From the outcome of a pair to its verdict."""

from __future__ import annotations

from dataclasses import replace

from flowref.auditing.pool import Broken
from flowref.auditing.schedule import ScheduledPair
from flowref.auditing.worker import PairOutcome
from flowref.baseline.failure_status import ACCUSING
from flowref.model import Law, Status, Target, Verdict
from flowref.model.budget import OUT_OF_MEMORY
from flowref.reporting.outcomes import FAILING


def not_run(target: str, law: Law, reason: str) -> Verdict:
    """The verdict on a pair that was not measured."""
    return Verdict(target, law.id, Status.NOT_RUN, reason, law_version=law.version, force=law.force)


def final(found: Verdict, replayed: Verdict | None, law: Law) -> Verdict:
    """Return the verdict on a pair: that of a recorded case, if it fails and the search found no
    failure.
    """
    if replayed is None or replayed.status not in ACCUSING or found.status in FAILING:
        return found
    return replace(
        replayed,
        reason="; ".join(filter(None, (replayed.reason, "seen in the case on record"))),
        counts=found.counts,
        seconds=found.seconds,
        law_version=law.version,
    )


def outcome_verdict(pair: ScheduledPair, outcome: PairOutcome | Broken, memory: int = 0) -> Verdict:
    """Return the verdict on a pair. A failed allocation is due to the memory limit and
    inconclusive. ``memory``: the limit in MiB, 0 without one.
    """
    if isinstance(outcome, Broken):
        return pair.verdict(outcome.status, outcome.reason, outcome.seconds)
    verdict = outcome.verdict or pair.verdict(
        Status.ERROR, outcome.raised or "it gave no verdict", outcome.seconds
    )
    if verdict.status in (Status.ERROR, Status.VIOLATED) and OUT_OF_MEMORY.search(verdict.reason):
        way_out = f"more than {memory} MiB: --memory {2 * memory}" if memory else "more memory"
        return pair.verdict(Status.INCONCLUSIVE, f"not judged: it needs {way_out}", verdict.seconds)
    return verdict


def loading_refusal(target: Target, raised: str) -> str:
    """Return why a target cannot be loaded, as one sentence that names it or its file.

    >>> from flowref.model import USER
    >>> loading_refusal(Target(USER, "a.py:f"), "no such file: a.py"), loading_refusal(Target(USER, "a.py:f"), "no")
    ('no such file: a.py', 'a.py:f cannot be loaded: no')
    """
    named = (str(target), target.component.rpartition(":")[0])
    prefix = (
        "" if any(name and name in raised for name in named) else f"{target} cannot be loaded: "
    )
    return prefix + raised
