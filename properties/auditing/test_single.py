"""Pairs judged one at a time in this process: as an audit judges them, within their time."""

from __future__ import annotations

import contextlib
import datetime
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import flowref
from flowref import loading, registry
from flowref.auditing import single
from flowref.auditing.deadline import OutOfTime, deadline
from flowref.auditing.single import Judge
from flowref.baseline.baseline_file import updated
from flowref.baseline.entry import Baseline, Entry
from flowref.checking import Settings
from flowref.model import Standing, Status, TargetError
from flowref.reporting.verdict_json import verdict_to_json

LAW = registry.find_law("map/log-det")
HEALTHY = registry.parse_target("nflows:AffineCouplingTransform")
WRONG = HEALTHY.with_options(mutant="map/log-det#log-det-relative")
QUICK = Settings("quick")


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Someone who judges."""
    return Judge(QUICK, tmp_path)


@pytest.fixture(scope="module")
def pinned() -> Baseline:
    """The violation of the wrong target, recorded with its case."""
    report = flowref.audit(WRONG, laws=LAW, profile="quick")
    return updated(Baseline(), report, reason="planted").baseline


def test_a_pair_is_judged_as_in_an_audit(judge: Judge) -> None:
    """The verdict is that of an audit, to the last bit."""
    (audited,) = flowref.audit(WRONG, laws=LAW, profile="quick").verdicts
    judged = judge.judge(WRONG, LAW)
    assert verdict_to_json(judged.verdict.without_time()) == verdict_to_json(audited.without_time())
    assert judged.fails and judged.known is None
    assert not judge.judge(HEALTHY, LAW).fails


def test_a_pinned_case_is_measured_again(judge: Judge, pinned: Baseline) -> None:
    """It fails as it is known to, is fixed, or fails worse than is accepted."""
    (entry,) = pinned.recorded
    as_known = judge.judge(WRONG, LAW, pinned)
    assert as_known.known is not None and as_known.known.standing is Standing.KNOWN
    assert as_known.verdict.status is Status.VIOLATED and not as_known.fails
    worse = replace(pinned, recorded=(replace(entry, max_margin=1.5),))
    changed = judge.judge(WRONG, LAW, worse)
    assert changed.known is not None and changed.known.standing is Standing.CHANGED
    assert changed.fails
    late = replace(pinned, recorded=(replace(entry, expires=datetime.date(2001, 1, 1)),))
    expired = judge.judge(WRONG, LAW, late)
    assert expired.known is not None and expired.known.standing is Standing.EXPIRED
    assert expired.fails


def test_an_entry_of_one_target_is_fixed_and_one_of_several_is_not(judge: Judge) -> None:
    """Where a law holds, an entry about the target is stale; one with a star may be about others."""
    one = Baseline((Entry(str(HEALTHY), LAW.id, "was wrong"),))
    fixed = judge.judge(HEALTHY, LAW, one)
    assert fixed.known is not None and fixed.known.standing is Standing.FIXED
    several = Baseline((Entry("nflows:Affine*", LAW.id, "some are wrong"),))
    assert judge.judge(HEALTHY, LAW, several).known is None


def test_what_cannot_be_loaded_is_tried_once(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pair raises the same sentence, and the code of the target runs once."""
    (tmp_path / "broken.py").write_text(
        "open('ran', 'a').write('x')\nraise RuntimeError('no data')"
    )
    target = registry.parse_target("broken.py:make")
    for _ in range(3):
        with pytest.raises(TargetError, match="no data"):
            judge.judge(target, LAW)
    assert (tmp_path / "ran").read_text() == "x"


def test_an_endless_pair_is_ended(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that takes longer than it may is a time-out, after two of which the target is left
    alone.
    """

    def endless(target: object, law: object, settings: object) -> None:
        while law is not None:
            try:
                sum(range(1000))
            except Exception:
                continue

    judge.load(HEALTHY)
    judge.settings = replace(QUICK, seconds=0.05)
    monkeypatch.setattr(single, "check_pair", endless)
    found = [judge.judge(HEALTHY, LAW).verdict for _ in range(3)]
    assert [verdict.status for verdict in found] == [
        Status.TIMEOUT, Status.TIMEOUT, Status.NOT_RUN,
    ]  # fmt: skip
    assert "0.05 s of CPU time" in found[0].reason


def test_a_deadline_leaves_nothing_behind() -> None:
    """After it, no timer runs and the signal means what it meant; who uses the timer keeps it."""

    def endless() -> None:
        while True:
            time.time()

    with pytest.raises(OutOfTime), deadline(0.02):
        endless()
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
    before = signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    try:
        with deadline(0.001):
            sum(range(1_000_000))
    finally:
        signal.signal(signal.SIGVTALRM, before)


def judged_by_a_judge(flow: Any) -> None:
    """As pytest has it judged."""
    Judge(QUICK, Path()).judge(loading.snapshot(flow), LAW)


class Seen(torch.nn.Module):
    """A map that notes with how many threads it is computed; its log-det is wrong."""

    threads: ClassVar[set[int]] = set()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Twice the input."""
        self.threads.add(torch.get_num_threads())
        return 2 * x, x.new_zeros(len(x))

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Half of it."""
        self.threads.add(torch.get_num_threads())
        return z / 2, z.new_zeros(len(z))


@pytest.mark.parametrize(
    "way",
    [
        judged_by_a_judge,
        lambda flow: flowref.audit(flow, event_shape=2, laws=LAW, profile="quick"),
        lambda flow: flowref.check(loading.snapshot(flow), LAW, QUICK),
        lambda flow: flowref.check_flow(flow, event_shape=2, laws=LAW, profile="quick"),
    ],
    ids=["plugin", "audit", "check", "check_flow"],
)
def test_one_thread_computes_in_this_process(way: Callable[[Any], Any]) -> None:
    """What is judged here has one thread, and whoever comes afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    Seen.threads.clear()
    try:
        with contextlib.suppress(flowref.FlowrefViolation):
            way(Seen())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert Seen.threads == {1}
