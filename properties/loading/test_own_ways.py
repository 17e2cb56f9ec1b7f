"""What a class does in a way of its own, moving itself, keeping a result, refusing, is met as it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flowref import check
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status, TargetError
from flowref.registry import parse_target


class OnDevice(nn.Module):
    """It keeps the device that `to` is given, and puts indices there."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.device: Any = "cpu"
        self.log_scale = nn.Parameter(torch.tensor([0.5, -0.25, 0.125]))

    def to(self, device: Any) -> OnDevice:  # type: ignore[override]  # as users write it
        """Moves it to a device."""
        self.device = device
        super().to(device)
        return self

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, the other way round."""
        order = torch.arange(2, -1, -1).to(self.device)
        return (x * self.log_scale.exp())[:, order], self.log_scale.sum().expand(len(x))

    def inverse(self, z: Tensor) -> Tensor:
        """Latents to data."""
        order = torch.arange(2, -1, -1).to(self.device)
        return z[:, order] * torch.exp(-self.log_scale)


class Keeping(OnDevice):
    """It keeps what it computed last, and takes a context that is None by default."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None
        self.net = nn.Linear(3, 3)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        self.last = self.log_scale + 0 * self.net(x).mean(0)
        return x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))

    def inverse(self, z: Tensor) -> Tensor:
        """Latents to data."""
        return z * torch.exp(-self.log_scale)


class Refusing(nn.Module):
    """It adds to the log-det that comes in, and refuses events of another size in its own words."""

    event_shape = (3,)

    def forward(self, x: Tensor, sldj: Tensor, reverse: bool = False) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        sldj += x.sum(1)
        raise ValueError("an even number of features is needed")


@pytest.mark.parametrize("law", ["map/calls-work", "map/inverse"])
@pytest.mark.parametrize("name", ["OnDevice", "Keeping"])
def test_a_way_of_its_own_is_no_defect(name: str, law: str) -> None:
    """Precision is no device, and a result that is kept does not stand in the way of copies."""
    assert check(f"{__file__}:{name}", law, Settings("quick")).status is Status.HOLDS


def test_the_refusal_of_the_usual_call_is_told() -> None:
    """Where no form of a running log-det is taken the words are those of the usual one."""
    with pytest.raises(TargetError, match="an even number of features"):
        recipe_of(parse_target(f"{__file__}:Refusing"))
