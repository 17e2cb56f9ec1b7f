"""Auditing: isolation, order, budget, journal and selection."""

from __future__ import annotations

import gc
import io
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flowref
from flowref import registry
from flowref.auditing import worker
from flowref.auditing.audit_run import conduct
from flowref.auditing.journal import Earlier, Journal
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.auditing.schedule import MOST, SLOW, STRIKES, Schedule, ScheduledPair, starved
from flowref.auditing.selection import select, select_laws
from flowref.auditing.usage import usage
from flowref.checking import Settings
from flowref.model import Recognized, Status, Target, Verdict
from flowref.reporting.report import Report

HERE = Path(__file__).parent
LAWS = (
    "map/log-det[inverse]",
    "map/inverse",
    "map/log-det",
    "shape/one-number-per-point[log-det]",
)
FATAL = {
    "segfault": (Status.CRASHED, "SIGSEGV"),
    "endless": (Status.TIMEOUT, "more than 3 s"),
    "endless_in_c": (Status.TIMEOUT, "more than 3 s"),
    "asleep": (Status.TIMEOUT, "slept for more than 3 s"),
    "exit_quietly": (Status.CRASHED, "code 0"),
    "exit_loudly": (Status.CRASHED, "code 7"),
    "system_exit": (Status.ERROR, "SystemExit"),
    "memory_bomb": (Status.INCONCLUSIVE, "more than 300 MiB: --memory 600"),
    "unlimited_bomb": (Status.CRASHED, "memory limit"),
    "close_everything": (Status.CRASHED, "process"),
}
HARMLESS = (
    "fork",
    "naps",
    "print_much",
    "read_input",
    "default_dtype",
    "random_numbers",
    "surroundings",
    "innocent",
)


def spec(name: str) -> str:
    """The spec of a hostile target; the file need not hold it: the stand-in goes by the name."""
    return f"hostile/entry.py:{name}"


@pytest.fixture(scope="module")
def hostile() -> Iterator[Options]:
    """Options under which the stand-in is called instead of the check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.chdir(HERE)
        yield Options(jobs=2, limits=Limits(seconds=3, memory=300), entry="hostile.entry:check")


@pytest.fixture(scope="module")
def aftermath(hostile: Options) -> Report:
    """One audit of every kind of misbehavior, in workers."""
    names = [*FATAL, *HARMLESS, "always_exit_loudly", "loading_segfault", "unloadable"]
    return conduct([spec(name) for name in names], LAWS, hostile, AuditListener())


@pytest.fixture
def alone(hostile: Options) -> Iterator[Options]:
    """The same in this process, with its calls counted from zero."""
    from hostile import entry

    entry.CALLS.clear()
    entry.INTERRUPT_AT.clear()
    yield replace(hostile, jobs=0)
    entry.INTERRUPT_AT.clear()


def calls() -> list[tuple[str, str | None]]:
    """The pairs that the stand-in was asked about in this process, probes excluded."""
    from hostile import entry

    return [call for call in entry.CALLS if call[1] is not None]


@pytest.mark.parametrize(("name", "expected"), FATAL.items())
def test_a_fatal_pair_costs_its_own_verdict_only(
    aftermath: Report, name: str, expected: tuple[Status, str]
) -> None:
    """Whatever ends a process costs the pair in hand one verdict that says how, and its neighbors
    hold.
    """
    first, *others = aftermath.of(spec(name))
    assert first.status is expected[0]
    assert expected[1] in first.reason
    assert [verdict.status for verdict in others] == [Status.HOLDS] * 3


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_pair_leaves_behind_is_invisible_to_the_next(aftermath: Report, name: str) -> None:
    """Settings, random states, folder and environment are the same for every pair, whoever ran
    before.
    """
    innocent = aftermath.of(spec("innocent"))[0].reason
    verdicts = aftermath.of(spec(name))
    assert [verdict.status for verdict in verdicts] == [Status.HOLDS] * 4
    assert {verdict.reason for verdict in verdicts[1:]} == {innocent}


def test_a_target_that_breaks_twice_is_left_alone(aftermath: Report) -> None:
    """After two crashes no further pair of a target is started, and those left say why; the other
    worker may have one in hand.
    """
    verdicts = aftermath.of(spec("always_exit_loudly"))
    left = [verdict for verdict in verdicts if verdict.status is not Status.CRASHED]
    assert len(verdicts) - len(left) in (2, 3)
    assert {verdict.status for verdict in left} == {Status.NOT_RUN}
    assert all("broke twice" in verdict.reason for verdict in left)


def test_a_crash_while_loading_is_charged_to_the_first_pair(aftermath: Report) -> None:
    """A target whose loading crashes has one CRASHED pair, and the others are not run."""
    verdicts = aftermath.of(spec("loading_segfault"))
    assert [verdict.status for verdict in verdicts] == [Status.CRASHED] + [Status.NOT_RUN] * 3
    assert "while loading" in verdicts[0].reason


def test_an_unloadable_target_is_one_sentence(aftermath: Report) -> None:
    """A target that cannot be loaded has no verdicts, is named as a problem, and decides the exit
    code.
    """
    assert [problem.spec for problem in aftermath.problems] == [spec("unloadable")]
    assert spec("unloadable") not in aftermath.targets
    assert aftermath.exit_code == 2


def test_the_report_is_in_order(aftermath: Report) -> None:
    """Verdicts come target by target as asked, laws sorted, whichever worker was faster."""
    expected = [(target, law) for target in aftermath.targets for law in sorted(LAWS)]
    assert [(verdict.target, verdict.law) for verdict in aftermath.verdicts] == expected
    assert list(aftermath.targets) == [
        spec(n) for n in (*FATAL, *HARMLESS, "always_exit_loudly", "loading_segfault")
    ]


def test_this_process_is_left_as_it_was(alone: Options) -> None:
    """An audit in this process restores the caller's random states and settings."""
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    expected = torch.rand(()).item(), np.random.rand(), random.random()
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    conduct(
        [spec("random_numbers"), spec("default_dtype"), spec("surroundings")],
        LAWS,
        alone,
        AuditListener(),
    )
    assert (torch.rand(()).item(), np.random.rand(), random.random()) == expected
    assert torch.get_default_dtype() is torch.float32


class Hearing(AuditListener):
    """Keeps the names of the targets of which it was told what came of them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def target(self, target: Target, verdicts: Sequence[Verdict], *_: Any) -> None:
        """One target."""
        self.names.append(str(target))


@pytest.mark.parametrize("at", [4, 7])
def test_an_interrupted_audit_tells_what_it_has(alone: Options, at: int) -> None:
    """Of each target that was begun, the one in hand among them, and of each once."""
    from hostile import entry

    entry.CALLS.clear()
    entry.INTERRUPT_AT.append(at)
    hearing = Hearing()
    report = conduct([spec("innocent"), spec("print_much")], LAWS, alone, hearing)
    entry.INTERRUPT_AT.clear()
    begun = {one.target for one in report.verdicts if one.status is not Status.NOT_RUN}
    assert begun and not report.complete
    assert begun <= set(hearing.names)
    assert len(hearing.names) == len(set(hearing.names))


@pytest.mark.parametrize("at", [2, 4, 7, 10])
def test_an_interrupted_audit_goes_on(alone: Options, tmp_path: Path, at: int) -> None:
    """Interrupted anywhere and run again, an audit repeats no pair and ends with the report of an
    undisturbed run.
    """
    from hostile import entry

    targets = [spec(name) for name in ("innocent", "print_much", "unloadable")]
    kept = replace(alone, folder=tmp_path)
    undisturbed = conduct(targets, LAWS, alone, AuditListener())
    entry.CALLS.clear()
    entry.INTERRUPT_AT.append(at)
    partial = conduct(targets, LAWS, kept, AuditListener())
    entry.INTERRUPT_AT.clear()
    assert not partial.complete
    assert Report.load(tmp_path / "report.json") == partial
    whole = conduct(targets, LAWS, kept, AuditListener())
    assert whole.without_time() == undisturbed.without_time()
    assert (
        partial.complete or len(calls()) <= 2 * len(LAWS) + 1
    )  # the pair that was interrupted starts again
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_stale_journal_is_not_used(alone: Options, tmp_path: Path) -> None:
    """Another seed, other laws or an edited file are another audit: nothing of the interrupted one
    is taken over.
    """
    from hostile import entry

    file = tmp_path / "flows.py"
    file.write_text("innocent = 1\n")
    kept = replace(alone, folder=tmp_path / "kept")
    targets = [f"{file}:innocent"]

    def interrupted(options: Options, laws: tuple[str, ...] = LAWS) -> int:
        """How many pairs a run that is interrupted at its fourth call was asked about."""
        entry.CALLS.clear()
        entry.INTERRUPT_AT[:] = [4]
        conduct(targets, laws, options, AuditListener())
        return len(calls())

    assert interrupted(kept) == 3
    assert interrupted(replace(kept, seed=1)) == 3
    assert interrupted(kept, LAWS[:3]) == 3
    file.write_text("innocent = 2\n")
    assert interrupted(kept) == 3
    assert interrupted(replace(kept, fresh=True)) == 3
    assert interrupted(kept) == 2


def test_an_error_leaves_a_closed_journal(tmp_path: Path) -> None:
    """An error of who listens ends the audit; its journal is closed, and what it holds is kept."""

    class Failing(AuditListener):
        def begin(self, *_: object) -> None:
            """Fail, as a terminal that is gone does."""
            raise BrokenPipeError

    options = Options("quick", jobs=0, folder=tmp_path)
    with pytest.raises(BrokenPipeError):
        conduct(["reference:Reverse"], LAWS, options, Failing())
    (kept,) = tmp_path.glob("audit-*.jsonl")
    assert kept.read_text().startswith('{"flowref-journal"')
    files = [one for one in gc.get_objects() if type(one) is io.TextIOWrapper]
    assert str(kept) not in [str(one.name) for one in files if not one.closed]


def test_a_journal_survives_being_cut_off(tmp_path: Path) -> None:
    """A journal whose last line is half written gives everything before it."""
    journal = Journal(tmp_path, "d" * 64)
    verdicts = [Verdict("t", f"l{place}", Status.HOLDS) for place in range(4)]
    taken = {"t": Recognized("bijection with inverse", (2,), conventions=("inverse: g()",))}
    journal.open(Earlier(tuple(verdicts), recognized=taken))
    journal.close(finished=False)
    text = journal.path.read_text()
    journal.path.write_text(text[:-9])
    assert journal.read() == Earlier(tuple(verdicts[:3]), recognized=taken)
    journal.path.write_text("garbage\n" + text)
    assert journal.read() == Earlier()


def test_a_report_tells_what_each_target_took(aftermath: Report, tmp_path: Path) -> None:
    """Seconds of the processor and the resident memory at its highest, also of what was killed for
    them; they are kept by the journal and by the JSON, and no part of the outcome.
    """
    loop, bomb, idle = (
        aftermath.expenses[spec(name)] for name in ("endless", "memory_bomb", "innocent")
    )
    assert loop.seconds > 3 > idle.seconds
    assert bomb.peak > idle.peak + 100 * 2**20
    assert idle.peak > 10 * 2**20
    assert Report.from_json(aftermath.to_json()).expenses == aftermath.expenses
    assert not aftermath.without_time().expenses
    journal = Journal(tmp_path, "e" * 64)
    journal.open(Earlier(expenses=aftermath.expenses))
    journal.spend(spec("endless"), replace(idle, seconds=1.0))
    journal.close(finished=False)
    expected = replace(loop, seconds=loop.seconds + 1, peak=max(loop.peak, idle.peak))
    assert journal.read().expenses[spec("endless")] == expected


def test_budget_keeps_pairs_from_starting(alone: Options) -> None:
    """Pairs that would start after the budget is spent are not run, and say so."""
    report = conduct([spec("innocent")], LAWS, replace(alone, budget=1e-9), AuditListener())
    assert report.counts[Status.NOT_RUN] == 4
    assert "budget" in report.verdicts[0].reason
    assert report.exit_code == 5


def test_a_budget_starves_no_family() -> None:
    """Where time may run out, each family of laws is measured on each target before any family is
    measured again; laws that do not apply are not counted.
    """
    laws = select_laws(("map/*", "same/*"))
    one, two = Target("user", "a.py:one"), Target("user", "a.py:two")
    schedule = Schedule([one, two], laws, hurried=True)
    assert schedule.next() == ScheduledPair(one, None)
    assert schedule.next() == ScheduledPair(two, None)
    schedule.loaded(one)
    schedule.loaded(two)
    first = schedule.next(one)
    assert first == ScheduledPair(one, laws[0])
    list(schedule.enter(first.verdict(Status.NOT_APPLICABLE, "none"), one))
    families: dict[Target, list[str]] = {one: [], two: []}
    last = one
    for _ in range(6):
        pair = schedule.next(last)
        assert pair is not None and pair.law is not None
        list(schedule.enter(pair.verdict(Status.HOLDS, ""), pair.target))
        families[pair.target].append(pair.law.family)
        last = pair.target
    assert [sorted(both[:2]) for both in families.values()] == [["map", "same"]] * 2


def test_starved_families_are_named() -> None:
    """Families of which nothing was run are counted, target by target."""
    run = Verdict("a", "map/one-to-one", Status.HOLDS)
    left = [
        Verdict(target, law, Status.NOT_RUN)
        for target in "ab"
        for law in ("map/log-det", "mode/restored")
    ]
    assert starved([run, *left]) == {"map": 1, "mode": 2}


def test_processor_time_is_that_of_the_process() -> None:
    """Work of a process shows in its usage, sleep does not; of what is no process nothing is told."""
    before = usage(os.getpid())
    if before is None:
        pytest.skip("the system does not tell")
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    worked = usage(os.getpid())
    time.sleep(0.3)
    slept = usage(os.getpid())
    assert worked is not None and slept is not None
    assert worked.seconds - before.seconds >= 0.25
    assert slept.seconds - worked.seconds < 0.25
    assert usage(2**22 + 1) is None


def test_workers_and_this_process_agree() -> None:
    """The same audit gives the same report, to the bit, in workers and in this process."""
    here, there = (
        flowref.audit("torch:SoftplusTransform", laws="map/log-det*", profile="quick", jobs=jobs)
        for jobs in (0, 1)
    )
    assert here.without_time() == there.without_time()
    assert here.counts[Status.HOLDS]


def test_live_objects_stay_in_this_process() -> None:
    """Asked for workers, an audit of a live object says that it runs here, and judges it."""
    flow = torch.distributions.ExpTransform()
    report = flowref.audit(
        flow, laws="shape/one-number-per-point[log-det]", jobs=1, profile="quick"
    )
    assert report.targets[0].startswith("object:ExpTransform#")
    assert report.exit_code in (0, 5)


@pytest.mark.parametrize("shape", [3, (3,), [3]])
def test_an_event_shape_is_that_of_all_targets(shape: Any) -> None:
    """Where they do not state their own; what cannot be loaded is a problem of the report."""
    flow = torch.distributions.ExpTransform()
    report = flowref.audit(
        [flow, "no_such_module:flow"],
        event_shape=shape,
        laws="shape/one-number-per-point[log-det]",
        profile="quick",
    )
    assert report.targets[0].endswith("?event=3")
    assert [problem.spec for problem in report.problems] == ["no_such_module:flow"]


def test_public_functions_can_be_called_twice() -> None:
    """No module shadows a public function once it was imported."""
    for _ in range(2):
        assert callable(flowref.audit)
        assert callable(flowref.check)
        assert callable(flowref.check_flow)
    assert set(flowref.__all__) <= set(dir(flowref))


def test_a_worker_stays_with_its_target() -> None:
    """Pairs are handed out target by target, and helpers join the target with most left."""
    laws = select_laws(LAWS)
    one, two = Target("user", "a.py:one"), Target("user", "a.py:two")
    schedule = Schedule([one, two], laws)
    assert schedule.next() == ScheduledPair(one, None)
    assert schedule.next() == ScheduledPair(two, None)
    assert schedule.next() is None
    schedule.loaded(one)
    schedule.loaded(two)
    assert [schedule.next(two) for _ in laws] == [ScheduledPair(two, law) for law in laws]
    assert schedule.next(two) == ScheduledPair(one, laws[0])


def test_workers_of_one_target_keep_to_families_of_their_own() -> None:
    """Laws of a family ask for the same calls, whose results a worker keeps; whoever is done with one
    takes the next at which nobody is.
    """
    laws = select_laws(("map/finite", "map/one-to-one", "mode/*", "state/registered"))
    target = Target("user", "a.py:one")
    schedule = Schedule([target], laws)
    assert schedule.next() == ScheduledPair(target, None)
    schedule.loaded(target)
    seen: list[list[ScheduledPair]] = [[], []]
    for turn in range(6):
        own = seen[turn % 2]
        if own:
            list(schedule.enter(own[-1].verdict(Status.HOLDS, ""), target))
        pair = schedule.next(target, [pair.kin for pair in own])
        assert pair is not None
        own.append(pair)
    families = [[pair.law.family for pair in own if pair.law] for own in seen]
    assert families == [["map", "map", "state"], ["mode", "mode", "mode"]]


def test_a_worker_of_a_slow_target_keeps_to_what_goes_back() -> None:
    """Where calls take long, laws of any family follow those whose results they share."""
    names = (
        "map/finite",
        "map/inverse[latents]",
        "same/train-mode[direction]",
        "state/registered",
    )
    target = Target("user", "a.py:one")
    schedule = Schedule([target], select_laws(names))
    assert schedule.next() == ScheduledPair(target, None)
    schedule.loaded(target, 2 * SLOW)
    had: list[list[str]] = [[], []]
    laws: list[list[str]] = [[], []]
    for turn in (0, 1, 1, 0):
        pair = schedule.next(target, had[turn])
        assert pair is not None and pair.law is not None
        had[turn].append(pair.kin)
        laws[turn].append(pair.law.id)
    assert laws == [
        ["map/finite", "state/registered"],
        ["map/inverse[latents]", "same/train-mode[direction]"],
    ]


def test_of_what_comes_last_the_longest_is_begun_first() -> None:
    """Whoever has gone back from points before, and whatever the worker measured last."""
    names = ("map/inverse[latents]", "map/log-det[inverse]", "map/log-det")
    target = Target("user", "a.py:one")
    schedule = Schedule([target], select_laws(names))
    assert schedule.next() == ScheduledPair(target, None)
    schedule.loaded(target, 2 * SLOW)
    first, second, third = (schedule.next(target, had) for had in ((), ("bijection",), ()))
    told = [pair.law.id for pair in (first, second, third) if pair and pair.law]
    assert told == [names[0], names[1], names[2]]


def test_selection_sets_mistakes_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad spec becomes a sentence, repetitions are dropped, and defaults go to those who do not
    say otherwise.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("f = g = None\n")
    chosen = select(["a.py:f?event=3", "a.py:g", "a.py:g", "nosuchlibrary"], {"event": "5"})
    assert [str(target) for target in chosen.targets] == ["a.py:f?event=3", "a.py:g?event=5"]
    assert [problem.spec for problem in chosen.problems] == ["nosuchlibrary"]


def outcomes(schedule: Schedule, target: Target, statuses: dict[str, Status]) -> dict[str, Status]:
    """What becomes of the laws of a target, if those that run end in these, and else hold."""
    schedule.loaded(target)
    ended = {}
    while (pair := schedule.next(target)) is not None:
        assert pair.law is not None
        status = statuses.get(pair.law.id, Status.HOLDS)
        for verdict in schedule.enter(pair.verdict(status, "as given"), target):
            ended[verdict.law] = verdict.status
    return ended


def test_what_breaks_twice_is_set_aside_and_the_other_laws_are_run() -> None:
    """Two laws that need the same ability broke, and no law came back from it: it is not used
    again, and what does without it is judged.
    """
    laws = select_laws(["map/*", "mode/*", "state/*"])
    target = Target("user", "a.py:one")
    guilty = {law.id for law in laws if "jacobian" in law.needs}
    ended = outcomes(Schedule([target], laws), target, dict.fromkeys(guilty, Status.CRASHED))
    assert sum(status is Status.CRASHED for status in ended.values()) == STRIKES
    assert {law for law, status in ended.items() if status is not Status.HOLDS} == guilty


def test_whole_jacobians_of_what_is_slow_to_load_come_last() -> None:
    """What they break or do not come to keeps no cheap law from running; quick targets keep the order. Of
    those, what needs most comes first: in the end one worker is waited for.
    """
    laws = select_laws(["map/*", "mode/*", "state/*"])
    target = Target("user", "a.py:one")
    dear = [law for law in laws if law.needs & {"jacobian", "along"}]
    dear.sort(key=lambda law: -len(law.needs))
    for seconds, expected in (
        (0.5, list(laws)),
        (9.0, [one for one in laws if one not in dear] + dear),
    ):
        schedule = Schedule([target], laws)
        schedule.loaded(target, seconds)
        handed = []
        while (pair := schedule.next(target)) is not None:
            handed.append(pair.law)
        assert handed == expected


def test_an_ability_from_which_a_law_came_back_is_not_set_aside() -> None:
    """What breaks then breaks alone, however often."""
    laws = select_laws(["map/*"])
    target = Target("user", "a.py:one")
    needing = [law.id for law in laws if law.needs == {"forward", "inverse"}]
    broken = dict.fromkeys(needing[1:5], Status.TIMEOUT)
    ended = outcomes(Schedule([target], laws), target, broken)
    assert {law for law, status in ended.items() if status is Status.TIMEOUT} == set(broken)
    assert all(status in (Status.HOLDS, Status.TIMEOUT) for status in ended.values())


def test_a_target_that_most_laws_break_is_left_alone() -> None:
    """Where everything breaks a few laws are tried, of what they need once each, and no more."""
    laws = select_laws(["*"])
    target = Target("user", "a.py:one")
    every = {law.id: Status.TIMEOUT for law in laws}
    ended = outcomes(Schedule([target], laws), target, every)
    assert sum(status is Status.TIMEOUT for status in ended.values()) <= MOST
    assert len(ended) == len(laws)


def test_what_broke_before_an_interruption_counts() -> None:
    """A resumed audit goes on with the charges of the first part."""
    laws = select_laws(["map/*"])
    target = Target("user", "a.py:one")
    needing = [law for law in laws if "jacobian" in law.needs]
    before = [ScheduledPair(target, law).verdict(Status.CRASHED, "") for law in needing[:STRIKES]]
    schedule = Schedule([target], laws, before)
    ended = outcomes(schedule, target, {needing[STRIKES].id: Status.CRASHED})
    assert ended[needing[-1].id] is Status.NOT_RUN


def test_a_worker_is_ready_to_give_back_what_a_target_frees_before_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once for each target."""
    given: list[bool] = []
    monkeypatch.setattr(worker, "give_back", lambda: given.append(True))
    worker.make_ready.cache_clear()
    target = registry.parse_target("nflows:AffineCouplingTransform")
    for law in (None, "shape/one-number-per-point[log-det]"):
        worker.check_pair(target, law, Settings("quick"))
    worker.make_ready.cache_clear()
    assert len(given) == 1


def test_the_journal_holds_no_pickles(alone: Options, tmp_path: Path) -> None:
    """What is kept on disk is JSON."""
    from hostile import entry

    entry.INTERRUPT_AT[:] = [3]
    conduct([spec("innocent")], LAWS, replace(alone, folder=tmp_path), AuditListener())
    (file,) = tmp_path.glob("*.jsonl")
    assert all(json.loads(line) for line in file.read_text().splitlines())


CROWDED = """
import torch
from torch import nn

class Crowded(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        ladj = -0.5 * torch.log1p(x * x).sum(-1)
        return torch.asinh(x), ladj[:1].expand(len(x)) if len(x) > 40 else ladj
"""


def test_what_shows_only_in_a_batch_is_told_as_it_was_in_the_batch(tmp_path: Path) -> None:
    """The second oracle asks about a point alone; what it sees there is not put beside an error
    that is not there.
    """
    (tmp_path / "flows.py").write_text(CROWDED)
    verdict = flowref.check(f"{tmp_path / 'flows.py'}:Crowded", "map/log-det")
    assert verdict.status is Status.VIOLATED
    assert verdict.counterexample is not None and verdict.evidence is not None
    told = verdict.counterexample.observed
    assert abs(told["reported"] - told["autograd"]) == pytest.approx(verdict.evidence.residual)
    assert "not alone" in verdict.reason
