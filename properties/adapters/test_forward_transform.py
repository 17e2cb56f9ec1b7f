"""forward_transform(x, logdet) is the map, where forward is its value alone or missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Scaling(nn.Module):
    """Numbers multiplied by others; ``factor``: of the log-det that is told."""

    event_shape = (2,)

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.8]))
        self.factor = factor

    def forward_transform(self, x: Any, logdet: Any = None, **kwargs: Any) -> Any:
        """The map, and the log-det added to what there was."""
        y = x * self.log_scale.exp()
        return y if logdet is None else (y, logdet + self.factor * self.log_scale.sum())

    def reverse(self, y: Any, **kwargs: Any) -> Any:
        """Its inverse."""
        return y * (-self.log_scale).exp()


class Called(Scaling):
    """The same, which can be called too."""

    def forward(self, x: Any) -> Any:
        """The value alone."""
        return self.forward_transform(x)


@pytest.mark.parametrize("kind", [Scaling, Called])
@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.HOLDS), (2.0, Status.VIOLATED)])
def test_its_log_det_is_judged(kind: Any, factor: float, status: Status) -> None:
    """It goes by what is told beside the value."""
    assert check(kind(factor), "map/log-det", QUICK).status is status


def test_reverse_goes_back() -> None:
    """There is no other method for that."""
    assert check(Scaling(1.0), "map/inverse", QUICK).status is Status.HOLDS
