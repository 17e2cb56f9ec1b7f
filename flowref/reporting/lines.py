"""A target on one line, which a screen, a notebook and a summary share."""

from __future__ import annotations

from collections.abc import Sequence

from flowref.model import KnownFailure, Recognized, Verdict
from flowref.reporting.judged import put_to_the_test
from flowref.reporting.outcomes import tally
from flowref.reporting.text import clean, number_of


def target_line(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    known: Sequence[KnownFailure] = (),
) -> str:
    """What it was taken for, how many checks apply, and what came of them.

    >>> from flowref.model import Status
    >>> target_line("zuko:NSF", [Verdict("zuko:NSF", "l", Status.NOT_RUN)])
    'zuko:NSF   1 check: 1 not run   0.0 s'
    """
    seconds = sum(verdict.seconds for verdict in verdicts)
    kind = f"{clean(recognized.kind)}   " if recognized else ""
    counted = f"{number_of(put_to_the_test(verdicts)[1], 'check')}: {tally(verdicts, known)}"
    return f"{clean(target)}   {kind}{counted}   {seconds:.1f} s"
