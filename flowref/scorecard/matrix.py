"""The matrix of a scorecard as data: a letter per pair, from which the page renders rows on demand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from flowref.model import Status, Verdict
from flowref.reporting.numbers import rounded_text
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.scorecard.letters import ABSENT, OUTCOMES, letters
from flowref.scorecard.phrases import brief


def group_of(target: str) -> str:
    """The library of a target, or the user's module or file.

    >>> group_of("zuko:NSF?features=3"), group_of("flows.py:make")
    ('zuko', 'flows.py')
    """
    return target.partition(":")[0]


def packed(report: Report, anchors: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return the matrix: laws, targets, a letter per pair, and details of pairs.

    ``anchors``: pair -> HTML id of its card. In the result, ``reasons`` lists distinct reasons;
    ``why`` maps, for each target, a reason to ranges of law numbers; ``held`` has, for each pair
    that holds in the order of the laws, the points examined and the decimal logarithm of the
    margin.
    """
    laws = [note.id for note in report.laws]
    # Verdicts on laws of another catalogue have columns too.
    laws += sorted({verdict.law for verdict in report.verdicts} - set(laws))
    laws.sort()
    targets = list(dict.fromkeys([*report.targets, *(v.target for v in report.verdicts)]))
    column = {law: index for index, law in enumerate(laws)}
    rows = {target: [ABSENT] * len(laws) for target in targets}
    reasons: dict[str, int] = {}
    why: dict[str, dict[int, list[int]]] = {target: {} for target in targets}
    held: dict[str, dict[int, str]] = {target: {} for target in targets}
    for verdict, letter in letters(report):
        index = column[verdict.law]
        rows[verdict.target][index] = letter
        if verdict.status is Status.HOLDS and verdict.counts.held:
            held[verdict.target][index] = _examined(verdict)
        elif text := brief(verdict):
            number = reasons.setdefault(text, len(reasons))
            why[verdict.target].setdefault(number, []).append(index)
    return {
        "outcomes": [[one.letter, one.word, one.icon, one.style, one.brief] for one in OUTCOMES],
        "laws": laws,
        "targets": [
            {
                "name": clean(target),
                "group": clean(group_of(target)),
                "letters": "".join(rows[target]),
                "why": {number: ranges(indices) for number, indices in why[target].items()},
                "held": " ".join(text for _, text in sorted(held[target].items())),
            }
            for target in targets
        ],
        "reasons": list(reasons),
        "cards": _cards(targets, column, anchors),
    }


def _examined(verdict: Verdict) -> str:
    margin = verdict.evidence.margin if verdict.evidence is not None else 0.0
    size = rounded_text(math.log10(margin), 2) if 0 < margin < math.inf else ""
    return f"{verdict.counts.held}/{size}" if size else str(verdict.counts.held)


def _cards(
    targets: Iterable[str], column: Mapping[str, int], anchors: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """The HTML id of a card, by "row,column"."""
    row = {target: index for index, target in enumerate(targets)}
    return {f"{row[t]},{column[law]}": anchor for (t, law), anchor in anchors.items()}


def ranges(indices: Iterable[int]) -> str:
    """Numbers as ranges.

    >>> ranges([3, 0, 1, 2, 7])
    '0-3,7'
    """
    runs = itertools.groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(group) for _, group in runs)]
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ends)
