"""What autograd cannot tell is said to be so."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pytest
import torch

from flowref import checking, loading
from flowref.model import Status, Target, Unsupported
from flowref.model.abilities import Differentiable, Pulling, offers


class PulledBack(Differentiable, Pulling, Protocol):
    """Jacobians and pullbacks."""


class Overwriting(torch.nn.Module):
    """x_2 -> x_2 exp(w x_1), solved back in place, entry by entry."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[0.0, 0.5], [0.0, 0.0]]))

    def scale(self, x: Any) -> Any:
        """The logarithm of the factor of each entry."""
        return x @ torch.triu(self.weight, 1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        scale = self.scale(x)
        return x * scale.exp(), scale.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x = torch.zeros_like(z)
        for entry in range(2):
            scale = self.scale(x)
            x[:, entry] = z[:, entry] * (-scale[:, entry]).exp()
        return x, -scale.sum(1)


@pytest.fixture
def target() -> Target:
    """The object as a target."""
    found: Target = loading.snapshot(Overwriting())
    return found


def test_a_graph_that_was_overwritten_is_no_error(target: Target) -> None:
    """Jacobians and pullbacks of a call that works in place are refused, and raise nothing else."""
    flow = loading.load(target)
    assert offers(flow, PulledBack)
    z = np.array([[0.5, 1.0], [-0.5, 2.0]])
    with pytest.raises(Unsupported, match="overwrites what autograd needs"):
        flow.jacobian("inverse", z, None)
    with pytest.raises(Unsupported, match="overwrites what autograd needs"):
        flow.vjp("inverse", z, None, np.ones_like(z), None)


@pytest.mark.parametrize("law", ["map/log-det[inverse]", "map/inverse-jacobian"])
def test_working_in_place_is_no_crime(target: Target, law: str) -> None:
    """No law of derivatives accuses or breaks where autograd cannot go back."""
    verdict = checking.pair_verdict(target, law)
    assert verdict.status not in (Status.VIOLATED, Status.ERROR)
