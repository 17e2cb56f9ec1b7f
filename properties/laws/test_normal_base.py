"""The constant of a base that no object shows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Image(nn.Module):
    """Images of eight pixels, scaled; ``counted``: for how many of them the base has its constant;
    ``levels`` of the data, which it counts besides; ``wide``: another base.
    """

    event_shape = (2, 2, 2)

    def __init__(self, counted: int = 8, levels: int = 1, wide: bool = False) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((8,), 0.2))
        self.constant = -0.5 * counted * math.log(2 * math.pi) - 8 * math.log(levels)
        self.wide = wide

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = x.flatten(1) * self.log_scale.exp()
        return z, self.log_scale.sum().expand(len(x))

    def log_prob(self, x: Any) -> Any:
        """That of a normal base, or of one with more in its tails."""
        z, ladj = self(x)
        square = (1 + z**2).log() if self.wide else 0.5 * z**2
        return ladj - square.sum(1) + self.constant


@pytest.mark.parametrize(
    ("image", "status"),
    [
        (Image(), Status.HOLDS),
        (Image(counted=1), Status.VIOLATED),
        (Image(counted=7), Status.VIOLATED),
        (Image(counted=6), Status.INCONCLUSIVE),
        (Image(counted=5), Status.VIOLATED),
        (Image(levels=256), Status.NOT_APPLICABLE),
        (Image(wide=True), Status.NOT_APPLICABLE),
    ],
    ids=["right", "once", "one-missing", "center", "three-of-eight", "levels", "other"],
)
def test_a_normal_base_has_the_constant_of_its_dimensions(image: Any, status: Status) -> None:
    """Levels of the data may be counted besides, and other bases have other constants; four particles in
    the plane have a center, which does not move, and eight numbers are of none in space.
    """
    assert check(image, "density/base-constant[latents]", QUICK).status is status
