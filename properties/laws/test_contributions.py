"""Laws of contributions: what is right is not accused under any seed, and what they measure is what
quadrature says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flowref import checking, registry
from flowref.adapters.reference.constructions_kernels import kernels
from flowref.checking import Settings
from flowref.laws.common.statistics import guarded
from flowref.laws.contribution.sets import Points, drawn_on, normal_on
from flowref.model import Status, Support, Undecidable, Unsupported
from rows import crossed

LAWS = [law.id for law in registry.laws() if law.key.startswith("contribution/")]
HEALTHY = [f"reference:{name}" for name in kernels()]
LIBRARIES = ["normflows:MetropolisHastings", "normflows:HamiltonianMonteCarlo"]
SUPPORTS = {
    "real": Support.parse("real"),
    "positive": Support.parse("positive"),
    "unit": Support.parse("unit"),
    "interval": Support.parse((-2.0, 3.0)),
    "ordered": Support.parse("ordered"),
    "below": Support.parse("(-inf,2)"),
    "product": Support.parse("positive,real,unit"),
}
STATISTICAL = (
    "density/mass[contribution]",
    "kernel/follows-contribution",
    "kernel/follows-contribution[near-pairs]",
    "random/rows-independent[contribution]",
)


@pytest.mark.parametrize(("target", "law"), crossed([*HEALTHY, *LIBRARIES], LAWS))
def test_a_healthy_kernel_is_not_accused(target: str, law: str) -> None:
    """By no law of the family."""
    status = checking.pair_verdict(target, law, Settings("quick")).status
    assert status in (Status.HOLDS, Status.NOT_APPLICABLE, Status.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("target", "law", "seed"),
    crossed(["reference:Slice", "reference:Metropolis", "reference:RAD"], STATISTICAL, range(1, 5)),
)
def test_no_seed_accuses(target: str, law: str, seed: int) -> None:
    """Chance alone accuses nobody."""
    assert checking.pair_verdict(target, law, Settings("quick", seed=seed)).status is Status.HOLDS


@pytest.mark.parametrize(
    ("target", "law"),
    [
        ("reference:Abs", "density/mass[contribution]"),
        ("reference:Augment", "density/mass[contribution]"),
        ("reference:KernelChain", "density/mass[contribution]"),
        ("reference:RAD", "kernel/follows-contribution"),
        ("reference:Sort", "map/inverse[draws]"),
        ("reference:Augment", "map/inverse[draws]"),
        ("reference:Langevin", "same/rows[contribution]"),
        ("normflows:MetropolisHastings", "density/mass[contribution]"),
        ("normflows:HamiltonianMonteCarlo", "kernel/follows-contribution[near-pairs]"),
        ("reference:Sort", "kernel/follows-contribution[near-pairs]"),
        ("reference:Abs[reversed]", "kernel/follows-contribution[near-pairs]"),
        ("reference:MaxPool[img]", "random/rows-independent[contribution]"),
    ],
)
def test_what_applies_is_decided(target: str, law: str) -> None:
    """These hold, and are not merely undecided."""
    assert checking.pair_verdict(target, law, Settings("quick")).status is Status.HOLDS


@pytest.mark.parametrize("name", SUPPORTS)
def test_distributions_on_supports_have_a_mass_of_one(name: str) -> None:
    """The ratio of one to the other is one on average: proposals, and densities of latents."""
    support, shape = SUPPORTS[name], (3,)
    proposal = Points(support, shape, 0.0, 1.5)
    rng = np.random.default_rng(0)
    x = proposal.draw(rng, 40_000)
    assert support.holds(x).all()
    mean, error, _ = guarded(normal_on(support, shape, x) - proposal.log_prob(x))
    assert abs(mean - 1) <= 5 * error + 1e-12
    z = drawn_on(support, shape, rng, 40_000)
    weights = np.exp(normal_on(support, shape, x) - proposal.log_prob(x))
    weighed = (weights[:, None] * np.tanh(x)).mean(0)
    assert np.abs(weighed - np.tanh(z).mean(0)).max() < 0.03


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.array([0.0] * 999 + [20.0]), "a few points"),
        (np.array([math.nan] * 10), "not a number"),
        (np.full(10, -math.inf), "no drawn point"),
    ],
)
def test_weights_that_tell_nothing_decide_nothing(weights: Any, words: str) -> None:
    """One that outweighs all others, one that is no number, and none at all."""
    with pytest.raises(Undecidable, match=words):
        guarded(weights)


def test_no_distribution_is_made_up() -> None:
    """On sets on which none is known the law is silent."""
    with pytest.raises(Unsupported, match="no distribution is known"):
        normal_on(Support.parse("simplex"), (3,), np.ones((2, 3)))
