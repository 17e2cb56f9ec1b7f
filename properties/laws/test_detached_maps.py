"""Maps whose gradient is not recorded: their log-dets are held against differences, within what is declared."""

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


class Detached(nn.Module):
    """x -> x + (s - 1) x, the second term without a graph; ``error``: of its log-det."""

    event_shape = (2,)
    log_det_tolerance = 1e-6

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Any) -> Any:
        """The value and its log-det."""
        ladj = 2 * math.log(0.7) + self.error
        return x - 0.3 * x.detach(), torch.full((len(x),), ladj, dtype=x.dtype)


@pytest.mark.parametrize(("error", "violated"), [(0.0, False), (1e-7, False), (0.1, True)])
def test_autograd_is_wrong_where_differences_agree(error: float, violated: bool) -> None:
    """Within the declared tolerance of the log-det; beyond it the log-det is wrong."""
    verdict = check(Detached(error), "map/log-det", QUICK)
    assert (verdict.status is Status.VIOLATED) == violated, verdict.reason
