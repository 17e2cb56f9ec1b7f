"""The catalogue proves itself: every law catches its mutants, leaves healthy flows alone, and says
the same everywhere.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from flowref import checking, loading, registry
from flowref.auditing.selftest import here
from flowref.checking import Settings
from flowref.model import (
    ADVICE,
    BOUND,
    CLAIM,
    CONTRACT,
    EXACT,
    ROUNDING,
    STATISTICAL,
    VALUES,
    VOLUME,
    Law,
    Mutant,
    Status,
    Target,
    Verdict,
    statement_of,
)
from flowref.model.law import EFFORTS, SCALES, SIZES
from flowref.reporting.verdict_json import verdict_to_json
from rows import one_of_each

LAWS = registry.laws()
MUTANTS = registry.mutants()
# One row per mutant and size of its defect; a mutant without sizes has one row.
# Those in a library of another environment are caught there (properties/adapters/with_jax).
HOSTED = [mutant for mutant in MUTANTS if here(mutant.host)]
DAMAGE = [(mutant, size) for mutant in HOSTED for size in (mutant.sizes or (None,))]
# The hosts of most mutants come first, and those of one host together: it is loaded once.
OFTEN = Counter(mutant.host for mutant in HOSTED)
DAMAGE.sort(key=lambda row: (-OFTEN[row[0].host], row[0].host))
CAUGHT = (Status.VIOLATED, Status.ADVICE)
FINE = (Status.HOLDS, Status.INCONCLUSIVE, Status.NOT_APPLICABLE, Status.ADVICE)
QUICK = Settings("quick")
# Of densities and log-dets, what is asked where no event is guessed: of layers that are known, and of samples; and what is
# the same whatever one event is.
KNOWN = (
    "density/mass[contribution]", "density/score", "density/stated[sample-moments]", "density/units[scale]", "map/log-det[batch]",
)  # fmt: skip


# The first defect of each specimen, and every healthy twin but one, whose solver takes a minute;
# `flowref selftest` does all.
SPECIMENS = sorted(registry.specimens().items())
DEFECTS = [next(iter(defects.items())) for _, defects in SPECIMENS]
TWINS = [twin for twin, _ in SPECIMENS if not twin.endswith(":residual")]
# Where a law of every family has something to say, and the check takes a second.
WITNESSES = (
    ("nflows:AffineCouplingTransform", "map/log-det"),
    ("nflows:BatchNorm", "same/saved[reload]"),
    ("nflows:CompositeTransform", "composition/algebra[order]"),
    ("torch:LogNormal", "density/mass"),
    (
        "nflows:AffineCouplingTransform?mutant=map/log-det#log-det-relative@1e-06",
        "map/log-det",
    ),
    (
        "flowref_zoo.specimens.spline:rational_quadratic?defect=off-by-one-bin",
        "map/inverse",
    ),
)


def settings_for(law: Law) -> Settings:
    """The quick profile, or the thorough one for laws that are measured in no other."""
    return Settings("thorough") if law.thorough else QUICK


def found(target: Target | str, law_id: str) -> Verdict:
    """The verdict of the quick profile; that of the standard one where the quick one accuses nobody,
    since some show in some states and draws only.
    """
    law = registry.find_law(law_id)
    verdict = checking.pair_verdict(target, law, settings_for(law), written=False)
    if verdict.status in CAUGHT or law.thorough:
        return verdict
    return checking.pair_verdict(target, law, Settings("standard"), written=False)


def exactly(verdict: Verdict) -> dict[str, Any]:
    """Everything in a verdict but its duration, to the bit: nan equals nan here, and 0.0 is not
    -0.0.
    """
    return verdict_to_json(verdict.without_time())


def module(spec: str) -> str:
    """The module of the zoo that a specimen stands in: one way of writing flows."""
    return spec.partition(":")[0]


def short(spec: str) -> str:
    """A test id from a spec: the module path of the zoo is left out."""
    return spec.removeprefix("flowref_zoo.")


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_is_stated(law: Law) -> None:
    """Every law has a statement that ends as a sentence does, a known force and tolerance, and a
    promise if a contract.
    """
    assert law.statement.endswith((".", "$"))
    assert law.force in (CLAIM, CONTRACT, ADVICE)
    assert law.tolerance in (ROUNDING, EXACT, BOUND, STATISTICAL)
    assert (law.force == CONTRACT) == (law.promise is not None)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_chooses_from_one_table(law: Law) -> None:
    """What is measured are the weights, batches and points of one table, and of a case those, or a thousand
    points.
    """
    assert law.scales in SCALES
    assert law.effort in EFFORTS
    assert law.size in SIZES or law.is_case


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_says_what_it_is_about(law: Law) -> None:
    """A law of densities or log-dets says that it is about volume, so that an event shape that was
    guessed accuses nobody; one of round trips that it is about values.
    """
    if law.family == "density" or statement_of(law.id).startswith("map/log-det"):
        assert law.about == VOLUME or law.base in KNOWN
    if law.id in ("map/inverse", "map/inverse[latents]", "map/inverse[batch-spread]"):
        assert law.about == VALUES


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_has_a_mutant(law: Law) -> None:
    """Every law is shown to be able to fail: some mutant is recorded for it, or of a case a defect of a
    specimen.
    """
    defects = [ids for _, of_one in SPECIMENS for ids in of_one.values()] if law.is_case else []
    assert [mutant for mutant in MUTANTS if mutant.law == law.id] or law.id in sum(defects, ())


def test_ids_are_unique_and_sorted() -> None:
    """Laws and mutants come sorted by id, and no id is used twice."""
    ids = [law.id for law in LAWS]
    assert ids == sorted(set(ids))
    names = [mutant.id for mutant in MUTANTS]
    assert names == sorted(set(names))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_is_found_by_its_name(mutant: Mutant) -> None:
    """Every mutant names a law that exists, says what it does, and is found again by its id, as a
    worker finds it.
    """
    assert registry.find_law(mutant.law).id == mutant.law
    assert mutant.description
    target = registry.parse_target(mutant.host).with_options(mutant=mutant.id)
    traveled = pickle.loads(pickle.dumps(target))
    assert registry.find_mutant(traveled.option("mutant")) is mutant


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_a_law_pickles_by_name(law: Law) -> None:
    """A pickled law is its id: it comes back as the very law of the catalogue."""
    data = pickle.dumps(law)
    assert pickle.loads(data) is law
    assert len(data) < 200


@pytest.mark.parametrize(
    ("mutant", "size"),
    one_of_each(DAMAGE, lambda row: row[0].law),
    ids=[m.id if size is None else f"{m.id}@{size!r}" for m, size in DAMAGE],
)
def test_a_mutant_is_caught(mutant: Mutant, size: float | None) -> None:
    """The law of a mutant is violated on its host, at every recorded size of the defect."""
    name = mutant.id if size is None else f"{mutant.id}@{size!r}"
    target = registry.parse_target(mutant.host).with_options(mutant=name)
    law = registry.find_law(mutant.law)
    verdict = found(target, mutant.law)
    assert verdict.status is (Status.ADVICE if law.force == ADVICE else Status.VIOLATED), (
        verdict.reason
    )


@pytest.mark.parametrize(
    ("host", "law"),
    one_of_each(sorted({(m.host, m.law) for m in HOSTED}), lambda row: row[0]),
    ids=lambda value: value,
)
def test_a_law_holds_on_the_host_of_its_mutant(host: str, law: str) -> None:
    """What the law sees is the defect: without it, the same law does not accuse the same host."""
    verdict = checking.pair_verdict(host, law, settings_for(registry.find_law(law)))
    assert verdict.status in FINE, verdict.reason
    if registry.find_law(law).force == CLAIM:
        assert verdict.status is Status.HOLDS, verdict.reason


@pytest.mark.parametrize(
    ("spec", "laws"),
    one_of_each(DEFECTS, lambda row: module(row[0])),
    ids=[short(spec) for spec, _ in DEFECTS],
)
def test_a_defect_of_a_specimen_is_caught(spec: str, laws: tuple[str, ...]) -> None:
    """A bug in a flow written as users write them violates one of the laws named for it."""
    verdicts = [found(spec, law) for law in laws]
    assert any(verdict.status in CAUGHT for verdict in verdicts), [
        (v.law, v.status, v.reason) for v in verdicts
    ]


@pytest.mark.parametrize("spec", one_of_each(TWINS, module), ids=short)
def test_a_healthy_twin_is_not_accused(spec: str) -> None:
    """No law of the catalogue accuses the same flow without its bug, nor breaks on it, and most of
    the laws have a say; of a process that takes data to noise, and is no flow, its own.
    """
    verdicts = [checking.pair_verdict(spec, law, QUICK) for law in LAWS]
    assert [(v.law, v.status, v.reason) for v in verdicts if v.status not in FINE] == []
    assert sum(verdict.status is Status.HOLDS for verdict in verdicts) > (
        0 if ".processes:" in spec else 10
    )


@pytest.mark.parametrize(
    ("spec", "law"), WITNESSES, ids=[f"{law}-{short(spec)}" for spec, law in WITNESSES]
)
def test_a_verdict_is_the_same_twice(spec: str, law: str) -> None:
    """Checked again from nothing, a pair gets the same verdict to the last bit, counterexample
    included.
    """
    first = checking.pair_verdict(spec, law, QUICK)
    loading.forget()
    assert exactly(checking.pair_verdict(spec, law, QUICK)) == exactly(first)


def test_a_verdict_is_the_same_in_another_process() -> None:
    """A process that has imported other things, in which other pairs ran before, gives the same
    verdicts to the last bit.
    """
    pairs = [
        (registry.parse_target(spec), registry.find_law(law), QUICK) for spec, law in WITNESSES
    ]
    here = [checking.pair_verdict(*pair) for pair in pairs]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.starmap(checking.pair_verdict, reversed(pairs))
    assert [exactly(verdict) for verdict in reversed(there)] == [
        exactly(verdict) for verdict in here
    ]


def test_witnesses_include_both_outcomes() -> None:
    """The test of the two tests above: among the pairs compared, some hold and some are violated."""
    statuses = [checking.pair_verdict(spec, law, QUICK).status for spec, law in WITNESSES]
    assert statuses == [Status.HOLDS] * 4 + [Status.VIOLATED] * 2


def test_another_seed_draws_other_points() -> None:
    """The seed matters: the counterexamples of two seeds differ, and the verdict does not."""
    spec, law = WITNESSES[-1]
    found = [checking.pair_verdict(spec, law, replace(QUICK, seed=seed)) for seed in (0, 1)]
    assert {verdict.status for verdict in found} == {Status.VIOLATED}
    assert found[0].counterexample != found[1].counterexample
