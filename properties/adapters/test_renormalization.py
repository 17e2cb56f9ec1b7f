"""Batch renormalization is no batch norm, whatever its base class; what only bears the name is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class BatchRenorm1d(nn.BatchNorm1d):
    """Statistics of a batch, corrected by averages of earlier ones (Ioffe, 2017), or not corrected."""

    event_shape = (3,)
    running_mean: Any
    running_var: Any

    def __init__(self, most: float) -> None:
        super().__init__(3)
        self.most = most

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if not self.training:
            return super().forward(x)
        mean, deviation = x.mean(0), torch.sqrt(x.var(0, unbiased=False) + self.eps)
        old = torch.sqrt(self.running_var + self.eps)
        r = (deviation / old).detach().clamp(1 / (1 + self.most), 1 + self.most)
        d = ((mean - self.running_mean) / old).detach().clamp(-self.most, self.most)
        with torch.no_grad():
            self.running_mean += 0.1 * (mean - self.running_mean)
            self.running_var += 0.1 * (x.var(0) - self.running_var)
            assert self.num_batches_tracked is not None
            self.num_batches_tracked += 1
        return self.weight * ((x - mean) / deviation * r + d) + self.bias


@pytest.mark.parametrize(
    ("most", "status"),
    [(2.0, Status.NOT_APPLICABLE), (0.0, Status.HOLDS)],
    ids=["corrected", "as it is"],
)
@pytest.mark.parametrize("law", ["batch-norm/moments", "batch-norm/shift-law"])
def test_corrected_statistics_are_no_batch_norm(law: str, most: float, status: Status) -> None:
    """Laws of batch norm speak of what is not corrected."""
    assert check(BatchRenorm1d(most), law, QUICK).status is status
