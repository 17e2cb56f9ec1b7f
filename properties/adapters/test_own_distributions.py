"""Distributions of users: what they do not offer is not asked of them."""

from __future__ import annotations

import pytest
import torch

from flowref import check, registry
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status

ZOO = "flowref.zoo.specimens.stated_distributions"


@pytest.mark.parametrize(
    ("name", "offered", "missing"),
    [
        ("circular", {"log_prob"}, {"sample", "cdf", "icdf"}),
        ("laplace_mixture", {"log_prob", "sample", "cdf"}, {"icdf", "rsample"}),
        ("bounded", {"log_prob", "sample", "rsample"}, set()),
    ],
)
def test_what_the_base_class_leaves_to_others_is_not_offered(
    name: str, offered: set[str], missing: set[str]
) -> None:
    """A density without samples, and a distribution function without quantiles, are no errors."""
    dialect = recipe_of(registry.parse_target(f"{ZOO}:{name}")).dialect
    assert all(getattr(dialect, one) is not None for one in offered)
    assert all(getattr(dialect, one) is None for one in missing)


def test_a_density_without_samples_is_not_accused_of_that() -> None:
    """What raises for want of a sampler is the base class."""
    verdict = check(f"{ZOO}:circular", "conduct/abilities-work", Settings("quick"))
    assert verdict.status in (Status.HOLDS, Status.NOT_APPLICABLE)


def told_of(distribution: object, law: str) -> Status:
    """The verdict of a law on a distribution of torch as its user has it."""
    return check(distribution, law, Settings("quick")).status


def test_moments_of_angles_are_circular() -> None:
    """The variance of an angle is one minus the length of its mean vector, in vectors as well."""
    angles = torch.distributions.VonMises(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 0.5]))
    told = torch.distributions.Independent(angles, 1)
    assert told_of(told, "sampling/stated-moments") is not Status.VIOLATED


def test_an_end_that_is_no_point_of_the_support_is_no_error() -> None:
    """The moments of a density that refuses zero are integrals up to zero."""
    assert told_of(
        torch.distributions.Weibull(torch.tensor(1.0), torch.tensor(0.7)), "density/stated-moments"
    ) not in (Status.ERROR, Status.VIOLATED)


@pytest.mark.parametrize("name", ["LogitNormal", "TransformedDistribution"])
def test_moments_that_are_not_told_are_not_asked_for(name: str) -> None:
    """A distribution of vectors within one turn that tells no moment is not held to any."""
    verdict = check(f"torch:{name}", "sampling/stated-moments", Settings("quick"))
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.reason == "it tells no moment"
