"""Laws of code that is traced: each catches its mutants and holds on their hosts, and bugs as users make
them violate them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("flowjax", reason="the hosts are constructions of FlowJAX")

import jax

from flowref import checking, registry
from flowref.auditing import selftest
from flowref.model import ADVICE, Mutant, Status
from rows import one_of_each

HERE = Path(__file__).parent
PLANTED = [one for one in registry.mutants() if one.host.startswith("flowjax:")]
QUICK = checking.Settings("quick")


def status(spec: str, law: str) -> Status:
    """What a law says of a target of the file of flows."""
    target = registry.parse_target(f"{os.path.relpath(HERE / 'flows.py')}:{spec}")
    return checking.pair_verdict(target, registry.find_law(law), QUICK, written=False).status


@pytest.mark.parametrize(
    "mutant", one_of_each(PLANTED, lambda mutant: mutant.law), ids=lambda mutant: mutant.id
)
def test_mutants_of_jax_are_caught(mutant: Mutant) -> None:
    """A law catches its mutant, and holds on the host of it."""
    law = registry.find_law(mutant.law)
    for size in mutant.sizes or (None,):
        name = mutant.id if size is None else f"{mutant.id}@{size!r}"
        target = registry.parse_target(mutant.host).with_options(mutant=name)
        caught = Status.ADVICE if law.force is ADVICE else Status.VIOLATED
        assert checking.pair_verdict(target, law, QUICK, written=False).status is caught
    healthy = checking.pair_verdict(registry.parse_target(mutant.host), law, QUICK)
    assert healthy.status is Status.HOLDS


def test_a_rule_of_derivatives_is_held_to_what_it_says() -> None:
    """Whoever writes the rule of a loop that solves is accused where it is wrong, and not where it is right."""
    assert status("ruled?bug=true", "map/inverse-jacobian") is Status.VIOLATED
    assert status("ruled?bug=false", "map/inverse-jacobian") is Status.HOLDS


@pytest.mark.parametrize(
    ("spec", "law"),
    [
        ("cached", "same/manner[second-trace]"),
        ("kept", "same/manner[second-trace]"),
        ("half_registered", "same/manner[tree]"),
        ("seeded", "random/seeded[key]"),
    ],
)
def test_bugs_of_tracing_are_caught(spec: str, law: str) -> None:
    """What a trace leaves behind, what is no leaf and what no key decides is seen, and the same flow
    without the bug is not accused.
    """
    assert status(f"{spec}?bug=true", law) is Status.VIOLATED
    assert status(f"{spec}?bug=false", law) is Status.HOLDS


@pytest.mark.parametrize(
    ("bug", "status_of_bug"),
    [
        ("", Status.HOLDS),
        ("numpy", Status.ADVICE),
        ("double", Status.ADVICE),
        ("loop", Status.ADVICE),
    ],
)
def test_single_precision_is_kept(bug: str, status_of_bug: Status) -> None:
    """A number of numpy, a cast to double and a loop that changes its type are seen where 64-bit types
    are on, or off; the setting of the process is what it was.
    """
    before = jax.config.jax_enable_x64
    assert status(f"scaled?event=3&bug={bug}", "dtype/follows[float32]") is status_of_bug
    assert jax.config.jax_enable_x64 == before


def test_constants_of_a_file_are_nobodys_bug() -> None:
    """What was made in double precision when the file was imported tells nothing of the code."""
    assert status("pair?event=3", "dtype/follows[float32]") is Status.NOT_APPLICABLE


def test_numbers_are_traced() -> None:
    """A number that is another where it is traced is seen; without the bug static and traced agree."""
    assert status("numbered?bug=number", "same/manner[traced-numbers]") is Status.VIOLATED
    assert status("numbered", "same/manner[traced-numbers]") is Status.HOLDS


@pytest.mark.parametrize("spec", ["numbered", "bent", "half_registered"])
def test_gradients_and_what_is_saved_agree(spec: str) -> None:
    """A custom rule, a module and a registered object have one gradient, and come back as they were
    saved.
    """
    for law in ("same/manner[traced-gradient]", "same/saved[leaves]"):
        assert status(spec, law) is Status.HOLDS


# Of each kind one that is quick to load.
HOSTS = ("flowjax:Affine", "flax:BatchNorm", "flowref_zoo.jax_specimens.surjective:drop")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what stands in for hosts that are not installed a few."""
    if registry.installed("nflows"):
        pytest.skip("hosts of torch are installed here")
    monkeypatch.setattr(selftest, "healthy_specs", lambda: HOSTS)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("law", "host"),
    [
        ("map/log-det", HOSTS[0]),
        ("batch-norm/train-map[reference]", HOSTS[1]),
        ("kernel/follows-contribution", HOSTS[2]),
    ],
)
def test_mutants_are_planted_where_their_library_is_missing(law: str, host: str) -> None:
    """A mutant whose host is not installed is planted in what its law speaks of."""
    for one in (one for one in registry.mutants() if one.law == law):
        found = selftest.hosts_of(one, "quick")
        assert host in found and set(found) != set(HOSTS)


@pytest.mark.usefixtures("few")
def test_what_cannot_be_planted_says_why() -> None:
    """A mutant of what nothing in JAX has names the ability that is missing."""
    mutant = registry.find_mutant("random/seeded[same-seed]#drawn-from-the-clock")
    tried = selftest.trial(mutant, "quick")
    assert tried.word == "no host"
    assert "it offers no" in tried.outcome
