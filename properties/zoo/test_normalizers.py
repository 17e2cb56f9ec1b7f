"""Each bug in the normalizers of the zoo is caught by a law that is about it."""

from __future__ import annotations

import pytest

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import ADVICE, Status
from rows import one_of_each

CASES = [
    (spec, laws)
    for twin, defects in registry.specimens().items()
    if "normalizer" in twin or "named_batch_norm" in twin
    for spec, laws in defects.items()
]


@pytest.mark.parametrize(
    ("spec", "laws"), one_of_each(CASES, lambda row: row[1]), ids=[spec for spec, _ in CASES]
)
def test_a_bug_is_caught(spec: str, laws: tuple[str, ...]) -> None:
    """One of the laws that a bug names tells: it is violated, or what it advises is not done."""
    found = {law: checking.pair_verdict(spec, law, Settings("quick")).status for law in laws}
    advising = any(registry.find_law(law).force == ADVICE for law in laws)
    telling = {Status.VIOLATED, Status.ADVICE} if advising else {Status.VIOLATED}
    assert telling & set(found.values()), found
