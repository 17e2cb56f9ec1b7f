"""A target on one line, which a screen, a notebook and a summary share."""

from __future__ import annotations

from collections.abc import Sequence

from flowref.model import KnownFailure, Recognized, Verdict
from flowref.reporting.judged import share
from flowref.reporting.outcomes import tally
from flowref.reporting.text import clean
from flowref.reporting.words import examples


def target_line(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    known: Sequence[KnownFailure] = (),
) -> str:
    """What it was taken for, how many laws were put to the test, and what came of them.

    >>> from flowref.model import Status
    >>> target_line("zuko:NSF", [Verdict("zuko:NSF", "l", Status.NOT_RUN)])
    'zuko:NSF   0 of 1 law: 1 not run   0 examples  0.0s'
    """
    seconds = sum(verdict.seconds for verdict in verdicts)
    kind = f"{clean(recognized.kind)}   " if recognized else ""
    counted = f"{share(verdicts)}: {tally(verdicts, known)}"
    return f"{clean(target)}   {kind}{counted}   {examples(verdicts)} examples  {seconds:.1f}s"
