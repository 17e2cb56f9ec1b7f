"""The self-test beside JAX, a share of it: `flowref selftest` plants every mutant, in everything."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("jax")
pytest.importorskip("numpyro", reason="a host is a construction of NumPyro")

from flowref import registry
from flowref.auditing import selftest
from flowref.model import Mutant

HOME = "flowref_zoo.jax_specimens."
# Of each kind one that is quick to measure: a map, a batch norm, a coupling, a density.
HOSTS = (
    "numpyro:AffineTransform",
    "flax:BatchNorm",
    f"{HOME}flows:halves",
    f"{HOME}densities:flow",
)
# Defects that hosts of one kind alone show: of hundreds of entries, of rows that are refused, of an order
# that another is stated for.
PARTICULAR = {
    "map/inverse-jacobian#one-entry-detached": f"{HOME}flows:halves",
    "coupling/pattern[conditioner]#one-entry-of-many-seen": f"{HOME}flows:wide",
    "map/finite[draws]#nothing-times-infinity": f"{HOME}surjective:metropolis",
    "random/rows-independent[contribution]#one-coin": f"{HOME}surjective:metropolis",
    "squeeze/order[declared]#weights-of-another-order": f"{HOME}flows:squeeze",
}
# Defects of what no host has, and where none is.
EXPONENTIAL = "numpyro:distributions.Exponential"
ABSENT = {
    "sampling/quantiles#continuity-assumed": (EXPONENTIAL, "it has no atoms"),
    "shape/one-number-per-point[log-prob]#batch-axes-flattened": (
        EXPONENTIAL,
        "it does not promise batch-dims",
    ),
    "sampling/follows-density[pit]#too-narrow": (
        f"{HOME}densities:affine",
        "it offers no base_sample",
    ),
}
# So many are drawn, of all that cannot be planted in their own host.
SEED, DRAWN = 16, 60
# What no host has is no defect of it; of some thirty that are planted, one is 3 %.
SHARE = 0.85


@pytest.mark.parametrize(("name", "host"), PARTICULAR.items(), ids=PARTICULAR)
def test_a_particular_host_shows_it(name: str, host: str) -> None:
    """What only some hosts can have is caught where it is planted in one of those."""
    tried = selftest.trial_on(registry.find_mutant(name), host, "quick", 0)
    assert tried.caught, tried.outcome


@pytest.mark.parametrize(("name", "host", "reason"), [(one, *why) for one, why in ABSENT.items()])
def test_what_no_host_has_is_planted_nowhere(name: str, host: str, reason: str) -> None:
    """A defect of atoms is none of a continuous distribution: it is counted with the reason."""
    tried = selftest.trial_on(registry.find_mutant(name), host, "quick", 0)
    assert not tried.planted
    assert tried.outcome == reason


@pytest.mark.deep
@pytest.mark.skipif(registry.installed("nflows"), reason="hosts of torch are installed here")
def test_a_share_of_the_mutants_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a seeded sample of mutants of torch code, of those that can be planted in four hosts in JAX, nine
    in ten are caught by their laws.
    """
    monkeypatch.setattr(selftest, "healthy_specs", lambda: HOSTS)
    strangers = [one for one in registry.mutants() if not selftest.here(one.host)]
    trials = [selftest.trial(one, "quick") for one in drawn(strangers)]
    planted = [one for one in trials if one.planted]
    unseen = [f"{one.mutant.id} on {one.host}: {one.outcome}" for one in planted if not one.caught]
    assert len(planted) > DRAWN / 4
    assert len(unseen) <= (1 - SHARE) * len(planted), "\n".join(unseen)


def drawn(mutants: list[Mutant]) -> list[Mutant]:
    """A sample that depends on nothing but what there is."""
    return random.Random(SEED).sample(mutants, DRAWN)
