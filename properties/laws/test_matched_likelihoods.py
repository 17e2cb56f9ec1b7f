"""Likelihoods of diffusion and flow matching as users write them: what is wrong is caught, and nobody is called wrong
for the steps of a solver.
"""

from __future__ import annotations

import pytest

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import Status, Verdict
from laws import matched

MASS, SAMPLES = "density/mass", "sampling/follows-density[ratios]"
BITS, BOUND = "density/units[bits-per-dim]", "density/mass[bound]"
ONCE, ESTIMATE = "random/once-per-solve", "map/log-det[estimate]"
# What is wrong with which, and the law that catches it.
WRONG = (
    ("FlowMatching", "half-of-the-divergence", MASS),
    ("FlowMatching", "sign-of-the-divergence", MASS),
    ("FlowMatching", "time-reversed", MASS),
    ("FlowMatching", "last-step-skipped", SAMPLES),
    ("Normalized", "scale-of-the-data", MASS),
    ("Pixels", "offset", BITS),
    ("Pixels", "levels", BITS),
    ("Dequantized", "offset", BITS),
    ("Dequantized", "levels", BITS),
    ("VPSDE", "half-of-the-score", SAMPLES),
    ("VPSDE", "sigma-squared", SAMPLES),
    ("VPSDE", "time-of-the-score", SAMPLES),
    ("VESDE", "scale-of-the-base", SAMPLES),
    ("VESDE", "variance-of-the-base", SAMPLES),
    ("Angles", "signs-of-v", SAMPLES),
    ("Estimated", "twice-the-estimate", ESTIMATE),
    ("NoisedBound", "entropy", BOUND),
)
RIGHT = (
    ("FlowMatching", MASS),
    ("FlowMatching", SAMPLES),
    ("Normalized", MASS),
    ("Normalized", SAMPLES),
    ("Pixels", BITS),
    ("Dequantized", BITS),
    ("VPSDE", MASS),
    ("VPSDE", SAMPLES),
    ("VESDE", MASS),
    ("VESDE", SAMPLES),
    ("Angles", MASS),
    ("Angles", SAMPLES),
    ("Estimated", ESTIMATE),
    ("Estimated", ONCE),
    ("NoisedBound", BOUND),
    ("Euler", MASS),
    ("Euler", SAMPLES),
)


def verdict(kind: str, law: str, wrong: str = matched.RIGHT) -> Verdict:
    """Of a law on one of them."""
    spec = f"{matched.__file__}:{kind}" + (f"?wrong={wrong}" if wrong else "")
    return checking.pair_verdict(registry.parse_target(spec), law, Settings(profile="quick"))


@pytest.mark.parametrize(("kind", "wrong", "law"), WRONG)
def test_what_is_wrong_is_caught(kind: str, wrong: str, law: str) -> None:
    """Each wrong likelihood violates a law."""
    found = verdict(kind, law, wrong)
    assert found.status is Status.VIOLATED, found


def test_noise_of_each_step_is_advised_against() -> None:
    """There is no equation to solve then."""
    assert verdict("Estimated", ONCE, "noise-of-each-step").status is Status.ADVICE


@pytest.mark.parametrize(("kind", "law"), RIGHT)
def test_what_is_right_holds(kind: str, law: str) -> None:
    """A right likelihood holds, or the law says that what it sees is the error of few steps: of a mass that may be
    seen of any method, of samples only of a coarse one.
    """
    found = verdict(kind, law)
    if found.status is not Status.HOLDS:
        assert law == MASS or kind == "Euler"
        assert found.status is Status.INCONCLUSIVE, found
        assert "the steps of its solver" in found.reason
