"""The smallest size of a planted defect that its law reports.

Sizes form a ladder with a constant factor. A law that reports a defect is assumed to report larger
ones, so that the last reported step can be searched: from a typical step with growing strides, then
by bisection. A missed step costs all batches of the law, a reported one only the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowref import checking, registry
from flowref.auditing.journal import own_digest
from flowref.auditing.power.lines import append_line, read_lines
from flowref.auditing.worker import guarded
from flowref.checking import Settings
from flowref.model import (
    ADVICE,
    ROUNDING,
    STATISTICAL,
    Law,
    Mutant,
    Status,
    Target,
    Verdict,
)

# The ratio of consecutive sizes.
STEP = 10.0**0.5
SMALLEST = 1e-18
# Root seeds under which a size must be reported, more for statistical laws; a few suffice during the
# search.
SEEDS, STATISTICAL_SEEDS, FEW = 1, 10, 2
# A typical threshold of laws judged against rounding.
ROUNDED = 3e-14


@dataclass(frozen=True)
class Threshold:
    """The smallest size of a mutant that was reported under every seed. ``smallest``: None if not
    even the largest declared size was; ``declared``: the sizes that the mutant declares; ``seeds``:
    root seeds per size; ``seed``: the first; ``digest``: of flowref's source.
    """

    mutant: str
    law: str
    declared: tuple[float, ...]
    smallest: float | None
    seeds: int
    seed: int = 0
    profile: str = "standard"
    digest: str = ""


def thresholds(
    path: Path, profile: str, seed: int, show: Callable[[Threshold, int, int], None]
) -> list[Threshold]:
    """Return the threshold of every mutant with sizes. Each is appended to a JSON-lines file; those
    of the same source are reused. ``show`` receives each new one, its number and the total.
    """
    known = {
        one.mutant: one
        for one in read_thresholds(path)
        if (one.digest, one.profile, one.seed) == (own_digest(), profile, seed)
    }
    sized = [mutant for mutant in registry.mutants() if mutant.sizes]
    for number, mutant in enumerate(sized, 1):
        if mutant.id not in known:
            known[mutant.id] = one = threshold(mutant, profile, seed)
            append_line(path, one)
            show(one, number, len(sized))
    return [known[mutant.id] for mutant in sized]


def threshold(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Threshold:
    """Return the smallest size of a mutant that its law reports."""
    law = registry.find_law(mutant.law)
    statistical = law.tolerance == STATISTICAL
    seeds = STATISTICAL_SEEDS if statistical else SEEDS
    ladder = list(falling(mutant.sizes))
    first = len(mutant.sizes) - 1  # the smallest declared size
    guess = first + 1
    if law.tolerance == ROUNDING:
        guess = max(guess, sum(size > ROUNDED for size in ladder))

    def caught_by_all(step: int, roots: int) -> bool:
        every = range(seed, seed + roots)
        return all(caught(mutant, law, ladder[step], profile, root) for root in every)

    # The smallest declared size is tried first: if it is reported, so are the others.
    last = next((step for step in range(first, -1, -1) if caught_by_all(step, seeds)), None)
    if last == first:
        roots = FEW if statistical else SEEDS
        last = last_step(lambda step: caught_by_all(step, roots), first, guess, len(ladder))
        while statistical and last > first and not caught_by_all(last, seeds):
            last -= 1
    smallest = None if last is None else ladder[last]
    return Threshold(
        mutant.id, mutant.law, mutant.sizes, smallest, seeds, seed, profile, own_digest()
    )


def last_step(caught_by_all: Callable[[int], bool], low: int, guess: int, end: int) -> int:
    """Return the last step below ``end`` at which ``caught_by_all`` is true, which it is at ``low``; the
    search starts at ``guess``.

    >>> [last_step(lambda step: step <= 7, 0, guess, 20) for guess in (1, 5, 8, 19)]
    [7, 7, 7, 7]
    """
    high, stride, step = end, 1, min(guess, end - 1)
    while high - low > 1:
        if caught_by_all(step):
            low, step = step, step + stride
        else:
            high, step = step, step - stride
        stride *= 2
        if not low < step < high:
            step = (low + high) // 2
    return low


def falling(declared: tuple[float, ...]) -> Iterator[float]:
    """Yield the declared sizes, largest first, then smaller ones by `STEP`."""
    yield from sorted(declared, reverse=True)
    size = min(declared) / STEP
    while size >= SMALLEST:
        yield size
        size /= STEP


def caught(mutant: Mutant, law: Law, size: float, profile: str, seed: int) -> bool:
    """Whether the law of a mutant reports it at a size."""
    host = registry.parse_target(mutant.host)
    target = host.with_options(mutant=f"{mutant.id}@{size!r}")
    settings = Settings("thorough" if law.thorough else profile, seed)
    verdict = guarded(_unwritten, target, law.id, settings).verdict
    wanted = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    return verdict is not None and verdict.status is wanted


def _unwritten(target: Target, law: str | Law | None, settings: Any) -> Verdict:
    assert law is not None
    return checking.pair_verdict(target, law, settings, written=False)


def read_thresholds(path: Path) -> Sequence[Threshold]:
    """Return the thresholds of a file, the last of each mutant; empty without a file.

    Raises: `ReportError` naming an invalid line.
    """
    records = read_lines(path, _threshold, "smallest size of a mutant")
    return tuple({one.mutant: one for one in records}.values())


def _threshold(fields: dict[str, Any]) -> Threshold:
    return Threshold(**{**fields, "declared": tuple(fields["declared"])})
