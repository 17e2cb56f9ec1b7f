"""A law that no catalogue has is judged like any other, in this process."""

from __future__ import annotations

import numpy as np
import pytest

import flowref
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.model import Batch, Residual, Status
from flowref.model.abilities import Bijection


@flowref.law("own/keeps-volume")
def keeps_volume(flow: Bijection, batch: Batch) -> Residual:
    """The map keeps volume: its log-det is zero."""
    return Residual(np.asarray(flow.forward(batch.x, batch.context).ladj), scale=1.0)


@pytest.mark.parametrize(
    ("spec", "status"),
    [("reference:Reverse", Status.HOLDS), ("reference:Affine", Status.VIOLATED)],
)
def test_a_law_of_ones_own_is_judged(spec: str, status: Status) -> None:
    """It holds where it holds and is violated where it is not, and the report has its statement."""
    report = flowref.audit(spec, laws=keeps_volume, profile="quick")
    assert [verdict.status for verdict in report.verdicts] == [status]
    assert [note.statement for note in report.laws] == [keeps_volume.statement]


def test_no_worker_has_it() -> None:
    """Where workers are asked for, it is said that such a law is judged here."""
    heard: list[str] = []

    class Hearing(AuditListener):
        def notice(self, text: str) -> None:
            """Keep it."""
            heard.append(text)

    report = conduct(["reference:Reverse"], keeps_volume, Options("quick", jobs=1), Hearing())
    assert report.counts[Status.HOLDS] == 1
    assert any("own/keeps-volume" in text and "in this process" in text for text in heard)
