"""Code of users of JAX is heard as it says of itself: couplings, squeezes, levels, bounded data, bases, and
layers that draw.
"""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from flowref import checking, loading, registry
from flowref.checking import Settings
from flowref.model import Status

HOME = "flowref_zoo.jax_specimens."
FILES = ("contractions", "densities", "flows", "surjective")
# Drawing gamma variables compiles for long; a chain has a mutant of its own in `test_mutants.py`.
DEAR = (f"{HOME}densities:dirichlet", f"{HOME}surjective:metropolis")
# The first bug of each: `flowref selftest` does all.
CASES = [
    next(iter(defects.items()))
    for twin, defects in sorted(registry.specimens().items())
    if twin.startswith(tuple(f"{HOME}{name}:" for name in FILES)) and twin not in DEAR
]
SURJECTIVE = [f"{HOME}surjective:{name}" for name in ("absolute", "augment", "drop")]


@pytest.mark.parametrize(("spec", "laws"), CASES, ids=[spec for spec, _ in CASES])
def test_a_bug_is_caught(spec: str, laws: tuple[str, ...]) -> None:
    """One of the laws that a bug names is violated, and holds for the twin."""
    twin = spec.partition("?")[0]
    for law in laws:
        if (
            checking.pair_verdict(spec, law, Settings("quick"), written=False).status
            is Status.VIOLATED
        ):
            assert checking.pair_verdict(twin, law, Settings("quick")).status is Status.HOLDS
            return
    pytest.fail(f"none of {', '.join(laws)} is violated")


@pytest.mark.parametrize("spec", SURJECTIVE)
@pytest.mark.parametrize(
    "law",
    [
        "kernel/follows-contribution",
        "density/mass[contribution]",
        "random/rows-independent[contribution]",
    ],
)
def test_a_layer_that_draws_is_judged(spec: str, law: str) -> None:
    """A layer that says that it draws is given a key, on a batch or event by event, and its contribution
    is judged.
    """
    assert checking.pair_verdict(spec, law, Settings("quick"), written=False).status is Status.HOLDS


def test_the_same_seed_is_the_same_key() -> None:
    """A layer that draws is a function of its seed, and of another another."""
    import numpy as np

    subject = loading.load(registry.parse_target(SURJECTIVE[1]))
    assert subject.push is not None
    x = np.random.default_rng(0).standard_normal((5, 2))
    once, again, other = (subject.push(x, seed, None).value for seed in (3, 3, 4))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_a_helper_beside_a_pair_is_no_log_det() -> None:
    """Where forward returns its log-det, a method of that name may take anything."""
    verdict = checking.pair_verdict(f"{HOME}flows:halves", "map/log-det", Settings("quick"))
    assert verdict.status is Status.HOLDS


def test_options_state_what_an_object_keeps() -> None:
    """?kept= makes a coupling of it, as for code in torch."""
    spec = f"{HOME}flows:board?kept=checkerboard:1"
    subject = loading.load(registry.parse_target(spec))
    assert subject.facts.coupling is not None
    assert subject.facts.coupling.kept[:2] == (0.0, 1.0)
