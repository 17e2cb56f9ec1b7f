"""Names and summary lines of targets, for terminal, notebook and summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from flowref.model import OBJECT, KnownFailure, Recognized, Verdict
from flowref.reporting.coverage import put_to_the_test
from flowref.reporting.outcomes import tally
from flowref.reporting.text import clean, number_of


def target_labels(targets: Iterable[str]) -> dict[str, str]:
    """Return the label of each target: a live object's class and options, if that is unique.

    >>> target_labels(["object:Flow#1a2b?event=3", "zuko:NSF?features=3"])
    {'object:Flow#1a2b?event=3': 'Flow (event 3)', 'zuko:NSF?features=3': 'zuko:NSF?features=3'}
    >>> target_labels(["object:Flow#1a2b", "object:Flow#3c4d"])["object:Flow#1a2b"]
    'object:Flow#1a2b'
    """
    short = {target: clean(_target_name(target)) for target in targets}
    seen = Counter(short.values())
    return {target: name if seen[name] == 1 else clean(target) for target, name in short.items()}


def _target_name(target: str) -> str:
    if not target.startswith(f"{OBJECT}:"):
        return target
    head, _, query = target.removeprefix(f"{OBJECT}:").partition("?")
    name = head.partition("#")[0]
    return f"{name} ({query.replace('=', ' ').replace('&', ', ')})" if query else name


def target_line(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    known: Sequence[KnownFailure] = (),
) -> str:
    """Return one line: the recognized kind, the number of applicable checks, and their outcomes.

    >>> from flowref.model import Status
    >>> target_line("zuko:NSF", [Verdict("zuko:NSF", "l", Status.NOT_RUN)])
    'zuko:NSF   1 check: 1 not run   0.0 s'
    """
    seconds = sum(verdict.seconds for verdict in verdicts)
    kind = f"{clean(recognized.kind)}   " if recognized else ""
    counted = f"{number_of(put_to_the_test(verdicts)[1], 'check')}: {tally(verdicts, known)}"
    return f"{clean(target)}   {kind}{counted}   {seconds:.1f} s"
