"""What a distribution of torch.distributions says of itself is held to: gradients of rsample, copies,
signs and equality.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributions import Gamma, Normal, TransformedDistribution, VonMises, transforms

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Detached(Normal):
    """rsample that is sample under another name."""

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Without a graph."""
        return super().rsample(sample_shape).detach()


class Halved(Normal):
    """rsample that takes the scale by its value."""

    def rsample(self, sample_shape: Any = ()) -> Any:
        """With a graph of the place alone."""
        noise = torch.randn(self._extended_shape(torch.Size(sample_shape)), dtype=self.loc.dtype)
        return self.loc + self.scale.detach() * noise


def normal(kind: Any = Normal) -> Any:
    """One whose tensors are of one number each."""
    return kind(torch.tensor(0.3), torch.tensor(1.7))


def composed() -> Any:
    """A normal distribution taken through a transform that holds tensors itself."""
    affine = transforms.AffineTransform(torch.tensor(1.0), torch.tensor(-2.0))
    return TransformedDistribution(normal(), [affine])


@pytest.mark.parametrize(
    "build", [normal, composed, lambda: Gamma(torch.tensor(2.0), torch.tensor(1.5))]
)
def test_samples_that_carry_gradients_hold(build: Any) -> None:
    """Those of rejection samplers as well, whose gradients are implicit."""
    assert check(build(), "gradient/of-samples[graph]", QUICK).status is Status.HOLDS


@pytest.mark.parametrize("kind", [Detached, Halved])
def test_samples_that_carry_none_are_found(kind: Any) -> None:
    """For one of the tensors as well, though none was made to require one."""
    assert check(normal(kind), "gradient/of-samples[graph]", QUICK).status is Status.VIOLATED


def test_who_has_no_rsample_is_not_asked() -> None:
    """torch says so by has_rsample."""
    told = VonMises(torch.tensor(0.3), torch.tensor(2.0))
    assert check(told, "gradient/of-samples[graph]", QUICK).status is Status.NOT_APPLICABLE


def test_a_decreasing_transform_may_say_so() -> None:
    """The sign of an affine map is that of its scale, entry by entry."""
    scale = torch.tensor([-2.0, 0.5, 1e-3])
    told = transforms.AffineTransform(torch.zeros(3), scale)
    assert check(told, "map/promised-jacobian[sign]", QUICK).status is Status.HOLDS


def test_transforms_that_compare_their_parameters_hold() -> None:
    """They are equal to what does the same."""
    told = transforms.ComposeTransform([transforms.ExpTransform()])
    assert check(told, "effects/construction[equality]", QUICK).status is Status.HOLDS
