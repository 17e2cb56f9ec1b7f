"""What eval mode comes to where one batch is shown for ever: means and deviations, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

LAW = "batch-norm/modes-agree[many-batches]"


class Averaging(nn.Module):
    """Train and eval mode go by running averages of several kinds."""

    event_shape = (2,)
    mean: Any
    size: Any

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.seen = kind, 0
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("size", torch.ones(2))

    def update(self, x: Any) -> None:
        """One batch enters."""
        size = {"root of squares": x.square().mean(0).sqrt(), "variance": x.var(0)}.get(self.kind)
        size = x.std(0) if size is None else size
        self.seen += 1
        if self.kind == "stops" and self.seen > 10:
            return
        if self.kind == "shrinks":
            self.mean.mul_(0.95)
        self.mean.lerp_(x.mean(0), 0.1)
        self.size.lerp_(size, 0.001 if self.kind == "slow" else 0.1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if self.training:
            with torch.no_grad():
                self.update(x)
        mean = 0 if self.kind == "root of squares" else self.mean
        size = 1 if self.kind == "mean alone" else self.size
        if not self.training:
            size = size * {"wider": 0.8, "a sixteenth wider": 15 / 16}.get(self.kind, 1.0)
            mean = mean + {"beside": 1.0}.get(self.kind, 0.0)
        return (x - mean) / size


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", Status.HOLDS),
        ("root of squares", Status.HOLDS),
        ("mean alone", Status.HOLDS),
        ("stops", Status.NOT_APPLICABLE),  # on purpose: it is not shown the batch for ever
        ("slow", Status.NOT_APPLICABLE),
        ("a sixteenth wider", Status.HOLDS),  # n or n - 1
        ("variance", Status.VIOLATED),
        ("wider", Status.VIOLATED),
        ("beside", Status.VIOLATED),
        ("shrinks", Status.VIOLATED),
    ],
)
def test_what_averages_settle_to(kind: str, expected: Status) -> None:
    """Averages that leave the mean, or the spread, as they are by design are not accused; a part of
    the mean, or another power of the spread, is.
    """
    assert check(Averaging(kind), LAW, Settings("quick")).status is expected
