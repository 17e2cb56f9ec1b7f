"""An inverse that writes its coordinates into place is judged by differences: autograd cannot, or
does so wrongly.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings, pair_verdict
from flowref.model import Status
from flowref.registry import parse_target

ZOO = "flowref_zoo.specimens.in_place"


@pytest.mark.parametrize("law", ["map/log-det[inverse]", "map/inverse-jacobian"])
@pytest.mark.parametrize("way", ["autoregressive", "unrecorded"])
def test_autograd_alone_accuses_nobody(way: str, law: str) -> None:
    """Whether it refuses what a loop writes into place, or loses it."""
    verdict = pair_verdict(parse_target(f"{ZOO}:{way}"), law, Settings("quick"))
    assert verdict.status not in (Status.VIOLATED, Status.ERROR), verdict.reason


def test_a_wrong_log_det_is_found_by_differences() -> None:
    """Where autograd cannot differentiate the inverse."""
    verdict = pair_verdict(
        parse_target(f"{ZOO}:autoregressive?defect=log-det"),
        "map/log-det[inverse]",
        Settings("quick"),
    )
    assert verdict.status is Status.VIOLATED


class Overwriting(nn.Module):
    """A map that writes its coordinates into place, one after the other, as it goes forward."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.3, -0.2, 0.4]))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = torch.zeros_like(x), torch.zeros(len(x), dtype=x.dtype)
        for i in range(3):
            s = (z * self.w).sum(-1).tanh()
            z[:, i] = x[:, i] * s.exp()
            ladj = ladj + s
        return z, ladj


@pytest.mark.parametrize("law", ["gradient/parameters[log-det]", "gradient/finite"])
def test_a_map_that_overwrites_what_it_computed_is_no_error(law: str) -> None:
    """No gradient can be asked for, which is said; nothing is known to be wrong."""
    verdict = pair_verdict(parse_target(f"{__file__}:Overwriting"), law, Settings("quick"))
    assert verdict.status is not Status.ERROR, verdict.reason


class Scaled(nn.Module):
    """A coupling whose subnetwork ends in a sigmoid, scaled in place or not."""

    event_shape = (4,)

    def __init__(self, in_place: bool, backward_too: bool) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 4), nn.Sigmoid())
        self.in_place, self.backward_too = in_place, backward_too

    def scale(self, kept: Any, in_place: bool) -> Any:
        """Scale and shift of the other half."""
        found = self.network(kept)
        if in_place:
            found *= 0.1
        else:
            found = found * 0.1
        return found.tanh().chunk(2, 1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        kept, other = x.chunk(2, 1)
        s, t = self.scale(kept, self.in_place)
        return torch.cat([kept, other * s.exp() + t], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        kept, other = z.chunk(2, 1)
        s, t = self.scale(kept, self.in_place and self.backward_too)
        return torch.cat([kept, (other - t) * (-s).exp()], 1), -s.sum(1)


@pytest.mark.parametrize(
    ("in_place", "backward_too", "status"),
    [
        (True, True, Status.VIOLATED),
        (True, False, Status.HOLDS),
        (False, False, Status.HOLDS),
    ],
)
def test_a_map_that_cannot_be_trained_in_any_direction_is_violated(
    in_place: bool, backward_too: bool, status: Status
) -> None:
    """One direction that overwrites what autograd needs is usual; both leave nothing to train by."""
    torch.manual_seed(0)
    verdict = check(Scaled(in_place, backward_too), "gradient/exists", Settings("quick"))
    assert verdict.status is status, verdict.reason
