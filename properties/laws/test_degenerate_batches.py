"""Batches whose spread is zero are made of points of any shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flowref.checking import Settings, pair_verdict
from flowref.laws.conduct.saved_state import degenerate
from flowref.model import Status
from flowref.registry import parse_target
from flowref.reporting.words import failure


@pytest.mark.parametrize(
    ("event_shape", "names"),
    [
        ((), {"of one row", "of equal rows"}),
        ((3,), {"of one row", "of equal rows", "with a constant feature"}),
        ((2, 4, 4), {"of one row", "of equal rows", "with a constant feature"}),
    ],
)
def test_a_feature_is_constant_where_there_are_several(
    event_shape: tuple[int, ...], names: set[str]
) -> None:
    """Numbers have one row and equal rows; in each batch some coordinate has no spread."""
    points = np.random.default_rng(0).standard_normal((16, *event_shape))
    batches = degenerate(points)
    assert set(batches) == names
    spread = {name: np.ptp(batch, axis=0) for name, batch in batches.items()}
    assert [name for name in names if not (spread[name] == 0).any()] == []
    assert {len(batch) for batch in batches.values()} == {1, 16}


def test_a_density_of_numbers_is_judged() -> None:
    """It has no further axis to be constant along."""
    verdict = pair_verdict(
        parse_target("reference:Exponential"), "state/degenerate-batch", Settings("quick")
    )
    assert verdict.status is Status.HOLDS, verdict.reason


class FirstBatch(torch.nn.Module):
    """An ActNorm as one writes it: its first batch in train mode sets shift and scale."""

    event_shape = (3,)
    ready: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(3))
        self.scale = torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The normalized batch, and its log-det."""
        if self.training and not self.ready:
            self.shift.data.copy_(-x.mean(0))
            self.scale.data.copy_(-x.std(0).log())
            self.ready.fill_(True)
        return (x + self.shift) * self.scale.exp(), self.scale.sum().expand(len(x))


class Bounded(FirstBatch):
    """The same, which refuses a batch of one row and bounds the spread."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The normalized batch, and its log-det."""
        if self.training and not self.ready:
            if len(x) < 2:
                raise ValueError("a first batch needs two rows")
            self.shift.data.copy_(-x.mean(0))
            self.scale.data.copy_(-x.std(0).clamp(1e-3).log())
            self.ready.fill_(True)
        return (x + self.shift) * self.scale.exp(), self.scale.sum().expand(len(x))


def test_what_was_done_and_what_to_do_is_said() -> None:
    """A violation tells the batch, what it spoils and for how long, how to mend it and how to say
    that no such batch comes; who refuses it holds, and who says so is not judged.
    """
    law, quick = "state/degenerate-batch", Settings("quick")
    verdict = pair_verdict(FirstBatch(), law, quick)
    assert verdict.status is Status.VIOLATED
    text = " ".join(failure(verdict))
    assert (
        "a train batch of one row or of equal rows or with a constant feature leaves scale not finite, "
        "for good, and so every value in eval mode;" in text
    )
    assert "raise on such a batch" in text and "the promise varied-batches" in text
    assert "off by 1" not in text
    assert pair_verdict(Bounded(), law, quick).status is Status.HOLDS
    declared = FirstBatch()
    declared.promises = {"varied-batches": True}  # type: ignore[assignment]  # as users write it
    verdict = pair_verdict(declared, law, quick)
    assert verdict.status is Status.NOT_APPLICABLE
    assert "declared to have several rows" in verdict.reason
