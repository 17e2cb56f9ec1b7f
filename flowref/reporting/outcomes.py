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
LABELS = {
    Status.HOLDS: "hold",
    Status.VIOLATED: "VIOLATED",
    Status.CRASHED: "CRASHED",
    Status.TIMEOUT: "TIMEOUT",
    Status.ERROR: "ERROR",
    Status.ADVICE: "advice",
    Status.INCONCLUSIVE: "inconclusive",
    Status.NOT_RUN: "not run",
}
# Laws that do not apply: those that wait, and those about something else.
WAIT, ELSEWHERE = "wait", "n/a"
ORDER = (*LABELS.values(), WAIT, ELSEWHERE)


def label(verdict: Verdict) -> str:
    """Under which word a verdict is counted.

    >>> label(Verdict("t", "l", Status.NOT_APPLICABLE, waits=True))
    'wait'
    """
    if verdict.status is Status.NOT_APPLICABLE:
        return WAIT if verdict.waits else ELSEWHERE
    return LABELS[verdict.status]


def tally(verdicts: Iterable[Verdict]) -> str:
    """How many verdicts under each word, those that occur; laws about something else are left out.

    >>> tally([Verdict("t", "l", Status.HOLDS), Verdict("t", "m", Status.NOT_RUN)])
    '1 hold  1 not run'
    """
    counts = Counter(map(label, verdicts))
    named = [word for word in ORDER if counts[word] and word != ELSEWHERE]
    return "  ".join(f"{counts[word]} {word}" for word in named) or "nothing checked"
