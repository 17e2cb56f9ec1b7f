"""What the statuses of verdicts mean for a report: which fail, how grave they are, how they are
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flowref.model import Status, Verdict

BROKEN = (Status.ERROR, Status.TIMEOUT, Status.CRASHED)
FAILING = (Status.VIOLATED, *BROKEN)
# The gravest first.
SEVERITY = (
    Status.CRASHED,
    Status.TIMEOUT,
    Status.ERROR,
    Status.VIOLATED,
    Status.ADVICE,
    Status.INCONCLUSIVE,
    Status.NOT_RUN,
    Status.NOT_APPLICABLE,
    Status.HOLDS,
)
LABELS = (
    (Status.HOLDS, "hold"),
    (Status.VIOLATED, "VIOLATED"),
    (Status.CRASHED, "CRASHED"),
    (Status.TIMEOUT, "TIMEOUT"),
    (Status.ERROR, "ERROR"),
    (Status.ADVICE, "advice"),
    (Status.INCONCLUSIVE, "inconclusive"),
    (Status.NOT_APPLICABLE, "n/a"),
    (Status.NOT_RUN, "not run"),
)


def tally(verdicts: Iterable[Verdict]) -> str:
    """How many of each status, those that occur.

    >>> tally([Verdict("t", "l", Status.HOLDS), Verdict("t", "m", Status.NOT_RUN)])
    '1 hold  1 not run'
    """
    counts = Counter(verdict.status for verdict in verdicts)
    return (
        "  ".join(f"{counts[status]} {label}" for status, label in LABELS if counts[status])
        or "nothing checked"
    )
