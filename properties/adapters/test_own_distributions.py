"""Distributions of users: what they do not offer is not asked of them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch

from flowref import check, registry
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Status

ZOO = "flowref_zoo.specimens.stated_distributions"


@pytest.mark.parametrize(
    ("name", "offered", "missing"),
    [
        ("circular", {"log_prob"}, {"sample", "cdf", "icdf"}),
        ("laplace_mixture", {"log_prob", "sample", "cdf"}, {"icdf", "rsample"}),
        ("bounded", {"log_prob", "sample", "rsample"}, {"functions"}),
        ("maxima", {"log_prob", "sample", "cdf", "functions", "icdf", "stated"}, {"rsample"}),
        ("growing", {"cdf", "functions", "rsample", "stated"}, {"icdf"}),
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
    verdict = check(f"{ZOO}:circular", "map/calls-work", Settings("quick"))
    assert verdict.status in (Status.HOLDS, Status.NOT_APPLICABLE)


def told_of(distribution: object, law: str) -> Status:
    """The verdict of a law on a distribution of torch as its user has it."""
    return check(distribution, law, Settings("quick")).status


def test_moments_of_angles_are_circular() -> None:
    """The variance of an angle is one minus the length of its mean vector, in vectors as well."""
    angles = torch.distributions.VonMises(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 0.5]))
    told = torch.distributions.Independent(angles, 1)
    assert told_of(told, "density/stated[sample-moments]") is not Status.VIOLATED


def test_an_end_that_is_no_point_of_the_support_is_no_error() -> None:
    """The moments of a density that refuses zero are integrals up to zero."""
    assert told_of(
        torch.distributions.Weibull(torch.tensor(1.0), torch.tensor(0.7)), "density/stated[moments]"
    ) not in (Status.ERROR, Status.VIOLATED)


@pytest.mark.parametrize("name", ["LogitNormal", "TransformedDistribution"])
def test_moments_that_are_not_told_are_not_asked_for(name: str) -> None:
    """A distribution of vectors within one turn that tells no moment is not held to any."""
    verdict = check(f"torch:{name}", "density/stated[sample-moments]", Settings("quick"))
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.reason == "it states no moment"


class Helped(torch.nn.Module):
    """The density of a logarithm that is normal; its log-density reads a mean, a cdf and an attribute that
    are not its own, and its entropy is estimated.
    """

    event_shape = (1,)

    def __init__(self) -> None:
        super().__init__()
        self.std = torch.nn.Parameter(torch.tensor(0.7))

    @property
    def mean(self) -> torch.Tensor:
        """That of the logarithm."""
        return 0.3 * torch.ones(1, dtype=self.std.dtype)

    def variance(self, weight: float = 1.0) -> torch.Tensor:
        """Estimated, and weighted."""
        return weight * torch.exp(torch.randn(4096, dtype=self.std.dtype)).var()

    def entropy(self) -> torch.Tensor:
        """Estimated."""
        return -self.log_prob(torch.randn(64, 1, dtype=self.std.dtype)).mean()

    def cdf(self, x: torch.Tensor) -> torch.Tensor:
        """That of a standard variable."""
        return torch.as_tensor(torch.special.ndtr(x))

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """By the normal density."""
        z = (x - self.mean) / self.std
        ends = (self.cdf(x - x) * 2).log()
        return (-0.5 * z**2 - self.std.log() - 0.9189385332046727 + ends).sum(-1)


def test_what_a_log_density_reads_is_no_statement_and_neither_is_an_estimate() -> None:
    """A mean and a cdf of parts, data of an object, and what is drawn anew say nothing of a density."""
    dialect = recipe_of(registry.parse_target(f"{__file__}:Helped")).dialect
    assert dialect.cdf is None
    assert dialect.functions is None
    assert dialect.stated is None


@pytest.mark.parametrize("name", ["Cauchy", "StudentT", "HalfCauchy", "Pareto"])
def test_a_moment_that_is_nan_is_no_error_where_tails_are_heavy(name: str) -> None:
    """A mean or variance that does not exist may be told as nan."""
    given = {"Pareto": (1.0, 0.9), "StudentT": (0.9,), "Cauchy": (0.0, 1.0)}.get(name, (1.0,))
    numbers = [torch.tensor(number, dtype=torch.float64) for number in given]
    told = getattr(torch.distributions, name)(*numbers)
    assert told_of(told, "density/stated[moments]") is not Status.VIOLATED


class Rows(torch.distributions.Distribution):
    """Standard normal vectors, of which batches are flattened, refused, or taken as they come."""

    support = torch.distributions.constraints.real_vector
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, way: str) -> None:
        self.way = way
        super().__init__(torch.Size(), torch.Size((3,)), validate_args=False)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """The log-density."""
        if self.way == "refuses" and value.dim() != 2:
            raise ValueError("points in one row, please")
        x = value.reshape(-1, 3) if self.way == "flattens" else value
        return -0.5 * (x**2).sum(-1) - 1.5 * math.log(2 * math.pi)


@pytest.mark.parametrize(
    ("way", "status"),
    [("takes", Status.HOLDS), ("refuses", Status.HOLDS), ("flattens", Status.VIOLATED)],
)
def test_several_batch_axes_are_kept_or_refused(way: str, status: Status) -> None:
    """What torch calls sample and batch shapes comes back, or the points do not go in."""
    assert told_of(Rows(way), "shape/one-number-per-point[log-prob]") is status


class Knots(torch.distributions.Transform):
    """Slopes of which several numbers for each entry tell, as those of a spline do, and an attribute the shape."""

    domain = codomain = torch.distributions.constraints.real_vector
    bijective = True
    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.slopes = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).reshape(3, 4)

    def _call(self, x: Any) -> Any:
        return x * self.slopes.sum(-1)

    def _inverse(self, y: Any) -> Any:
        return y / self.slopes.sum(-1)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """One number for all points."""
        return self.slopes.sum(-1).log().sum().expand(x.shape[:-1])


def test_the_shape_that_a_transform_states_is_believed() -> None:
    """Tensors of more axes than an event has tell another one."""
    assert check(Knots(), "map/log-det", Settings("quick")).status is Status.HOLDS
