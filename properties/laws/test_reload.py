"""What a constructor draws and a state_dict does not hold is told, though another object may draw it by
chance.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import first_of


class Swaps(nn.Module):
    """Two scaled entries that are swapped or not, as is drawn: half of all objects are alike."""

    event_shape = (2,)
    order: Tensor

    def __init__(self, saved: bool) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.5, -0.25]))
        order = torch.randperm(2)
        self.register_buffer("order", order) if saved else setattr(self, "order", order)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        return (x * self.log_scale.exp())[:, self.order], self.log_scale.sum().expand(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data."""
        x = z[:, self.order.argsort()] * torch.exp(-self.log_scale)
        return x, -self.log_scale.sum().expand(len(z))


def saved() -> nn.Module:
    """Its order is a buffer."""
    return Swaps(True)


def unsaved() -> nn.Module:
    """Its order is a plain attribute."""
    return Swaps(False)


@pytest.mark.parametrize("seed", first_of(range(4)))
@pytest.mark.parametrize(("name", "status"), [("saved", "HOLDS"), ("unsaved", "VIOLATED")])
def test_what_is_drawn_and_not_saved_is_told(name: str, status: str, seed: int) -> None:
    """An order of two entries that is not saved is told under every seed, and one that is saved is not."""
    verdict = check(f"{__file__}:{name}", "same/saved[reload]", Settings("quick", seed=seed))
    assert verdict.status is Status[status]
