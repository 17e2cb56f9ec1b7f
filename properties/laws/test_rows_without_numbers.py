"""Rows of a batch that are no numbers leave the others to be judged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.laws.contribution.draws import directions_as_declared
from flowref.laws.contribution.gradient import parameter_gradient
from flowref.loading import load
from flowref.model import Batch, Status, Undecidable
from flowref.registry import parse_target


class Gate(nn.Module):
    """The first of two entries, infinite beyond ``most``; the second is normal around a multiple of the
    first. ``bug``: its mean is detached, or is drawn.
    """

    stochastic_forward, stochastic_inverse = False, True
    event_shape, latent_shape = (2,), (1,)

    def __init__(self, bug: str = "", most: float = 1.0, beyond: float = math.inf) -> None:
        super().__init__()
        self.slope, self.bug, self.most, self.beyond = (
            nn.Parameter(torch.tensor(0.4)),
            bug,
            most,
            float(beyond),
        )

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        kept, rest = x[:, :1], x[:, 1:]
        z = torch.where(kept.abs() < self.most, kept, self.beyond)
        mean = z * self.slope
        if self.bug == "detached":
            mean = mean.detach()
        if self.bug == "drawn":
            mean = mean + 0.1 * torch.randn_like(mean)
        return z, (-0.5 * (rest - mean) ** 2 - 0.5 * math.log(2 * math.pi)).sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data; refuses what is no number."""
        mean = z * self.slope
        return torch.cat([z, torch.distributions.Normal(mean, 1.0, validate_args=True).sample()], 1)


def spec(name: str) -> str:
    """The target of a class of this file."""
    return f"{Path(__file__)}:{name}"


def gate(**options: str) -> str:
    """The target of such a layer."""
    return f"{Path(__file__)}:Gate?" + "&".join(f"{k}={v}" for k, v in options.items())


@pytest.mark.parametrize(("bug", "status"), [("no", Status.HOLDS), ("detached", Status.VIOLATED)])
def test_a_layer_is_trained_by_rows_that_are_numbers(bug: str, status: Status) -> None:
    """Where a layer gives numbers its gradients in the parameters are judged, whatever other rows hold."""
    verdict = pair_verdict(gate(most="1", bug=bug), "gradient/parameters[contribution]")
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize(("bug", "wrong"), [("no", 0.0), ("drawn", 1.0)])
def test_an_inverse_may_refuse_what_is_no_number(bug: str, wrong: float) -> None:
    """Whether a layer draws is told by those rows of which it makes numbers."""
    subject = load(parse_target(gate(most="5", beyond="nan", bug=bug)))
    batch = Batch(np.array([[9.0, 0.0], [0.5, 0.3], [1.0, -1.0]]), None, 0)
    residual = directions_as_declared.measure(subject, batch)
    assert residual.decidable is not None
    assert np.array_equal(residual.decidable, [False, True, True])
    assert (residual.value[1:] == wrong).all()


def test_where_no_row_is_a_number_that_is_said() -> None:
    """A batch of nothing but such rows decides nothing, and says why."""
    subject = load(parse_target(gate(most="5", beyond="nan")))
    with pytest.raises(Undecidable, match="no row could be measured"):
        parameter_gradient.measure(subject, Batch(np.full((3, 2), 9.0), None, 0))
