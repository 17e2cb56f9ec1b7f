"""How small a planted defect may be: the smallest size at which its law still tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flowref import registry
from flowref.auditing.worker import check_pair, guarded
from flowref.checking import Settings
from flowref.model import ADVICE, STATISTICAL, Law, Mutant, Status

# Sizes fall by this factor until the law is silent.
STEP = 10.0**0.5
SMALLEST = 1e-18
# Root seeds that a size must be caught under; a statistical law may be lucky once.
SEEDS, STATISTICAL_SEEDS = 1, 10


@dataclass(frozen=True)
class Threshold:
    """The smallest size of a mutant that was caught under every seed.

    ``smallest``: None where not even the largest declared size was; ``declared``: the sizes that
    the mutant promises; ``seeds``: how many roots each size was tried under.
    """

    mutant: str
    law: str
    declared: tuple[float, ...]
    smallest: float | None
    seeds: int


def thresholds(
    profile: str, seed: int, show: Callable[[Threshold, int, int], None]
) -> Iterator[Threshold]:
    """The threshold of every mutant that has sizes. ``show`` is given each, its number, and how
    many there are.
    """
    sized = [mutant for mutant in registry.mutants() if mutant.sizes]
    for number, mutant in enumerate(sized, 1):
        one = threshold(mutant, profile, seed)
        show(one, number, len(sized))
        yield one


def threshold(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Threshold:
    """The smallest size of a mutant at which its law tells, by falling sizes."""
    law = registry.find_law(mutant.law)
    seeds = STATISTICAL_SEEDS if law.tolerance == STATISTICAL else SEEDS
    roots = range(seed, seed + seeds)
    smallest = None
    for size in falling(mutant.sizes):
        if not all(caught(mutant, law, size, profile, root) for root in roots):
            if smallest is not None:
                break
            continue  # a larger declared size may still be caught
        smallest = size
    return Threshold(mutant.id, mutant.law, mutant.sizes, smallest, seeds)


def falling(declared: tuple[float, ...]) -> Iterator[float]:
    """The declared sizes, largest first, and then smaller and smaller ones."""
    yield from sorted(declared, reverse=True)
    size = min(declared) / STEP
    while size >= SMALLEST:
        yield size
        size /= STEP


def caught(mutant: Mutant, law: Law, size: float, profile: str, seed: int) -> bool:
    """Whether the law of a mutant tells of it at a size."""
    host = registry.parse_target(mutant.host)
    target = host.with_options(mutant=f"{mutant.id}@{size!r}")
    settings = Settings("thorough" if law.thorough else profile, seed)
    verdict = guarded(check_pair, target, law.id, settings).verdict
    wanted = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    return verdict is not None and verdict.status is wanted
