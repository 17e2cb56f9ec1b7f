"""Shards: which pairs belong to which part of an audit. They depend only on targets, laws and given
costs, so that every machine computes the same ones.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from flowref.model import Law, ReportError, SpecError, Target
from flowref.reporting.contents import Shard
from flowref.reporting.report import Report

# A target above this share of a part is divided: its laws are spread over parts, which all load it.
WHOLE = 0.5
Share = Mapping[str, frozenset[str]]


def parsed(text: str) -> tuple[int, int]:
    """Return (index, count) of a shard. Raises: `SpecError` in one sentence.

    >>> parsed("2/4")
    (2, 4)
    """
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise SpecError(
            f"{text!r} is no shard; expected i/n with i from 1 to n, such as 1/4 for the first of four"
        )
    return index, count


def costs_of(report: Report) -> dict[str, float]:
    """Return the CPU seconds of each target's laws in an earlier audit.

    Raises: `ReportError` if the report has no costs.
    """
    costs = {target: expense.seconds for target, expense in report.expenses.items()}
    if not costs:
        raise ReportError(
            "the report of --costs does not say what its targets took; give one of an audit in "
            "workers, in full"
        )
    return costs


def split_into_shards(
    targets: Sequence[Target],
    laws: Sequence[Law],
    count: int,
    costs: Mapping[str, float] | None = None,
) -> list[Share]:
    """Return the laws of each target in each of ``count`` parts of similar cost; every pair is in
    exactly one. ``costs``: CPU seconds of targets; missing ones count as the median. A target is
    divided only if it is a large share of a part.
    """
    known = [cost for name, cost in (costs or {}).items() if cost > 0]
    usual = statistics.median(known) if known else 1.0
    weights = {str(target): (costs or {}).get(str(target), 0.0) or usual for target in targets}
    most = WHOLE * sum(weights.values()) / count
    pieces: list[tuple[float, str, frozenset[str]]] = []
    for name, weight in weights.items():
        number = min(len(laws), math.ceil(weight / most - 1e-9)) if count > 1 and most > 0 else 1
        effort = sum(law.effort for law in laws) or 1
        for chosen in _divided([(law.effort, law.id) for law in laws], max(number, 1)):
            part = sum(law.effort for law in laws if law.id in chosen)
            pieces.append((weight * part / effort, name, chosen))
    loads, parts = [0.0] * count, [dict[str, frozenset[str]]() for _ in range(count)]
    for cost, name, chosen in sorted(pieces, key=lambda piece: (-piece[0], piece[1])):
        least = loads.index(min(loads))
        loads[least] += cost
        parts[least][name] = parts[least].get(name, frozenset()) | chosen
    return list(parts)


def _divided(laws: Iterable[tuple[int, str]], number: int) -> list[frozenset[str]]:
    """Laws in ``number`` groups of similar effort."""
    loads, groups = [0] * number, [set[str]() for _ in range(number)]
    for effort, law in sorted(laws, key=lambda one: (-one[0], one[1])):
        least = loads.index(min(loads))
        loads[least] += effort
        groups[least].add(law)
    return [frozenset(group) for group in groups]


def note(index: int, count: int, targets: Sequence[Target]) -> Shard:
    """The shard of a report."""
    return Shard(index, count, tuple(map(str, targets)))
