"""Lower bounds: what promises one is held to Jensen's inequality, and to nothing that is about the
density itself.
"""

from __future__ import annotations

import pytest

import flowref
from flowref import loading, registry
from flowref.model import Status

BOUNDS = "flowref_zoo.specimens.bounds"
EXACT = ("sampling/follows-density[ratios]", "density/mass")


@pytest.mark.parametrize(("name", "random"), [("variational", True), ("expected", False)])
def test_a_bound_is_random_where_calls_say_so(name: str, random: bool) -> None:
    """A promised bound that differs between random states is an estimate, and another is none."""
    subject = loading.load(registry.parse_target(f"{BOUNDS}:{name}"))
    assert subject.promises["lower-bound"]
    assert bool(subject.promises.get("estimator")) is random


@pytest.mark.parametrize(
    ("name", "kind"),
    [("variational", "one-sample"), ("sampled", "expected"), ("averaged", "expected")],
)
def test_code_tells_whether_a_bound_is_one_sample(name: str, kind: str) -> None:
    """e to a bound with a divergence in closed form, or to a mean, is no unbiased estimate."""
    subject = loading.load(registry.parse_target(f"{BOUNDS}:{name}"))
    assert subject.promises["lower-bound"] == kind


@pytest.mark.parametrize("defect", ["", "constant-missing"])
@pytest.mark.parametrize("name", ["sampled", "averaged"])
def test_of_other_random_bounds_the_mean_is_one(name: str, defect: str) -> None:
    """They are held to lie below the density on average, and not to more."""
    spec = f"{BOUNDS}:{name}" + (f"?defect={defect}" if defect else "")
    verdict = flowref.check(spec, "density/mass[bound]")
    assert verdict.status is (Status.VIOLATED if defect else Status.HOLDS)


@pytest.mark.parametrize("law", EXACT)
@pytest.mark.parametrize("name", ["variational", "expected"])
def test_a_bound_is_not_held_to_the_density(name: str, law: str) -> None:
    """Samples need not fit a lower bound, and it need not integrate to one."""
    assert flowref.check(f"{BOUNDS}:{name}", law).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("defect", ["", "constant-missing", "divergence-sign"])
def test_a_bound_lies_below(defect: str) -> None:
    """A deterministic bound holds below the density, however far, and is accused above it."""
    spec = f"{BOUNDS}:expected" + (f"?defect={defect}" if defect else "")
    verdict = flowref.check(spec, "density/mass[bound]")
    assert verdict.status is (Status.VIOLATED if defect else Status.HOLDS)
