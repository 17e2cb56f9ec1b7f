"""An inverse that writes its coordinates into place is judged by differences: autograd cannot, or
does so wrongly.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

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
