"""Maps and densities that declare a group are held to it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import SpecError, Status

QUICK = Settings("quick")


class Points(nn.Module):
    """Four points of the plane, each moved along its own length: $x (1 + c e^{-|x|^2})$; with a defect one point, or one
    direction, is moved otherwise.
    """

    event_shape = (4, 2)

    def __init__(self, defect: str = "", group: str = "rotation") -> None:
        super().__init__()
        self.defect, self.promises = defect, {"equivariant": group}
        self.c = nn.Parameter(torch.tensor(0.4))

    def forward(self, x: Any) -> Any:
        """With the log-det of each point's radial map, in polar coordinates."""
        squares = x.square().sum(-1, keepdim=True)
        factor = 1 + self.c * torch.exp(-squares)
        slope = factor - 2 * self.c * squares * torch.exp(-squares)
        ladj = (factor * slope).abs().log().sum((1, 2))
        scale = torch.ones_like(x)
        if self.defect == "direction":
            scale[..., 0] = 1.01
            ladj = ladj + 4 * math.log(1.01)
        if self.defect == "point":
            scale[:, 0] = 1.01
            ladj = ladj + 2 * math.log(1.01)
        return x * factor * scale, ladj

    def log_prob(self, x: Any) -> Any:
        """Of a standard normal base."""
        z, ladj = self.forward(x)
        return -0.5 * z.square().sum((1, 2)) - 4 * math.log(2 * math.pi) + ladj


@pytest.mark.parametrize("law", ["map/equivariant", "density/invariant"])
@pytest.mark.parametrize(
    ("defect", "group", "holds"),
    [
        ("", "rotation", True),
        ("", "permutation", True),
        ("", "sign", True),
        ("direction", "rotation", False),
        ("direction", "permutation", True),
        ("point", "permutation", False),
        ("point", "rotation", True),
    ],
)
def test_a_declared_group_is_judged(law: str, defect: str, group: str, holds: bool) -> None:
    """What is uneven breaks the groups that take it elsewhere, and no other."""
    found = check(Points(defect, group), law, QUICK)
    assert found.status is (Status.HOLDS if holds else Status.VIOLATED), found


def test_a_group_that_is_none_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(SpecError, match="expected rotation or permutation or sign"):
        check(Points(group="translation"), "map/equivariant", QUICK)
