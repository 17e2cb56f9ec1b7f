"""Each bug of the two sets of notes is named by the laws that it breaks, and by no other."""

from __future__ import annotations

import functools

import pytest

from flowref import checking, registry
from flowref.auditing.selftest import healthy_specs
from flowref.model import Status, base_of
from flowref_zoo.seeds import batch_norm as seeds
from flowref_zoo.seeds import batch_norm_rows as table
from flowref_zoo.seeds.bug_rows import NONE
from rows import one_of_each

QUICK = checking.Settings("quick")
LAWS = tuple(law for law in registry.laws() if not law.thorough)
# All bugs of a class at once; of one channel where only that broadcasts.
TOGETHER = {
    f"{table.FIRST}?num_channels=1": seeds.FlattenedBatchNorm.BUGS,
    f"{table.SECOND}?num_channels=1": seeds.AveragingBatchNorm.BUGS,
    table.THIRD: seeds.GradientModeBatchNorm.BUGS,
    f"{table.THIRD}?num_dims=2": seeds.GradientModeBatchNorm.BUGS,
}
SHOWN = [(row, target) for row, case in table.ROWS.items() for target in case.targets]
TWINS = [f"{name}?rows={NONE}" for name in (table.FIRST, table.SECOND, table.THIRD)]
TWINS += [f"{TWINS[0]}&num_channels=1", f"{TWINS[1]}&num_channels=1", f"{TWINS[2]}&num_dims=2"]
# What is said of these layers with and without bugs: their parameters have names of their own, and
# a huge number makes the variance of a batch infinite.
USUAL = {"map/finite-far-out[extremes]", "batch-norm/conventions[state-dict]"}


@functools.cache
def audited(target: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The laws that a construction of the zoo violates, those that advise against it, and those
    that broke on it.
    """
    found = {
        law.id: checking.pair_verdict(f"{seeds.__name__}:{target}", law, QUICK).status
        for law in LAWS
    }
    sound = (
        Status.HOLDS,
        Status.NOT_APPLICABLE,
        Status.INCONCLUSIVE,
        Status.VIOLATED,
        Status.ADVICE,
    )
    # A case fails where its law does.
    violated = frozenset(base_of(law) for law, status in found.items() if status is Status.VIOLATED)
    advised = frozenset(law for law, status in found.items() if status is Status.ADVICE)
    return (
        violated,
        advised - USUAL,
        frozenset(law for law, status in found.items() if status not in sound),
    )


def test_the_table_is_complete() -> None:
    """Every bug that the classes know has its row, every row is a bug, and every law of the table
    is in the catalogue.
    """
    assert set(table.ROWS) == {row for known in TOGETHER.values() for row in known}
    named = {law for row in table.ROWS.values() for law in (*row.laws, *row.besides)}
    assert named <= {law.id for law in registry.laws()}


def test_no_bug_passes_for_healthy() -> None:
    """None of these layers is among the subjects for which every law must hold."""
    assert not [spec for spec in healthy_specs() if seeds.__name__ in spec]


@pytest.mark.parametrize("twin", TWINS)
def test_without_bugs_every_law_holds(twin: str) -> None:
    """The same layers without any bug violate nothing, and nothing advises against them."""
    assert audited(twin) == (frozenset(), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("row", "target"), one_of_each(SHOWN, lambda row: row[1].partition("?")[0])
)
def test_a_bug_is_named(row: str, target: str) -> None:
    """Each bug alone breaks a law of its row, and none outside it."""
    violated, advised, broken = audited(target)
    case = table.ROWS[row]
    assert (violated | advised) & set(case.laws)
    assert not (violated | advised) - {*case.laws, *case.besides}
    assert not broken


@pytest.mark.parametrize("target", TOGETHER)
def test_all_bugs_together_are_named(target: str) -> None:
    """With all its bugs at once, a layer breaks a law of each of them, and none besides."""
    violated, advised, broken = audited(target)
    rows = {row: table.ROWS[row] for row in TOGETHER[target]}
    assert [row for row, case in rows.items() if not (violated | advised) & set(case.laws)] == []
    assert not (violated | advised) - {
        law for case in rows.values() for law in (*case.laws, *case.besides)
    }
    assert not broken


@pytest.mark.parametrize("power", [1.5, 0.5, -0.5, -1.0, -1.4, -1.499, -1.501, -2.0])
def test_the_exponent_is_found(power: float) -> None:
    """Any exponent but -3/2 in the derivative by the variance is found, however near; the sums of
    gradients stay zero.
    """
    name = f"{seeds.__name__}:{table.THIRD}?rows={NONE}&power={power}"
    for law in table.ROWS["002-3"].laws:
        assert checking.pair_verdict(name, law, QUICK).status is Status.VIOLATED
    for law in table.ROWS["002-4"].laws:
        assert checking.pair_verdict(name, law, QUICK).status is Status.HOLDS
