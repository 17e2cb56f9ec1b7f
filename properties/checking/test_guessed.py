"""An event shape that nothing but calls tells accuses nobody, however a flow is given."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import audit, check
from flowref.model import Status, TargetError, Verdict
from flowref.reporting.audit_summary import summary_lines, unseen

LAW = "map/log-det"


class Leaky(nn.Module):
    """A leaky ReLU whose log-det counts each point once: right for events of one entry."""

    def __init__(self, slope: float = 0.2) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Any) -> Any:
        """There."""
        negative = (x < 0).any(-1).to(x)
        return torch.where(x < 0, self.slope * x, x), negative * math.log(self.slope)

    def inverse(self, z: Any) -> Any:
        """Back."""
        negative = (z < 0).any(-1).to(z)
        return torch.where(z < 0, z / self.slope, z), -negative * math.log(self.slope)


class Needing(Leaky):
    """One that cannot be made without being told how."""

    def __init__(self, slope: float) -> None:
        super().__init__(slope)


@pytest.mark.parametrize(
    "flow",
    [Leaky(), Leaky, lambda: Leaky(0.3), functools.partial(Needing, 0.3)],
    ids=["object", "class", "function", "partial"],
)
def test_an_event_that_was_guessed_accuses_nobody(flow: Any) -> None:
    """Objects, and what classes and factories make, are doubted as targets of a file are."""
    verdict = check(flow, LAW)
    assert verdict.status is Status.INCONCLUSIVE
    assert "say ?event=1 or ?event=4" in verdict.reason


def test_a_log_det_that_was_not_checked_is_told_at_the_end() -> None:
    """What passes says nothing of a likelihood then, also where little is shown."""
    report = audit([Leaky()], laws=[LAW, "map/inverse"])
    told = " ".join(" ".join(summary_lines(report, verbosity=-1)).split())
    assert "was not checked: the event shape (4,) was guessed" in told
    assert (
        "1 check passed, and is proved under the conditions that -v lists; 1 inconclusive." in told
    )


def test_many_log_dets_that_were_not_checked_are_one_line() -> None:
    """An audit of a library ends in few lines, whatever was open in it."""
    verdicts = [Verdict(f"a.py:F{n}", LAW, Status.INCONCLUSIVE, f"reason {n}") for n in range(9)]
    assert len(unseen(verdicts[:3])) == 3
    assert unseen(verdicts) == [
        "The log-dets of F0, F1, F2 and 6 more were not checked; the lines of each say why."
    ]


def test_a_class_that_needs_arguments_is_one_sentence() -> None:
    """It names them, and two ways out."""
    with pytest.raises(
        TargetError, match=r"Needing needs slope; give an object, as Needing\(\.\.\.\)"
    ):
        check(Needing, LAW)
