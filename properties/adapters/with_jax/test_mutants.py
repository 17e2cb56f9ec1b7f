"""The self-test beside JAX, a share of it: `flowref selftest` plants every mutant, in everything."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("jax")
pytest.importorskip("numpyro", reason="a host is a construction of NumPyro")

from flowref import registry
from flowref.auditing import selftest
from flowref.model import Mutant

HOME = "flowref.zoo.jax_specimens."
# Of each kind one that is quick to measure: a map, a batch norm, a coupling, a density.
HOSTS = (
    "numpyro:AffineTransform",
    "flax:BatchNorm",
    f"{HOME}flows:halves",
    f"{HOME}densities:flow",
)
# So many are drawn, of all that cannot be planted in their own host.
SEED, DRAWN = 16, 60
# What no host has is no defect of it.
SHARE = 0.9


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
