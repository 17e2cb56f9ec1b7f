"""An audit in parts: every pair in one part, and the parts put together are the whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.report_merge import merge
from flowref.auditing.selection import select_laws
from flowref.auditing.shards import parsed, split_into_shards
from flowref.baseline.entry import Baseline, Entry
from flowref.cli import main
from flowref.model import ReportError, SpecError, Status, Target
from flowref.reporting.report import Report

HERE = Path(__file__).parent
ALL = select_laws(())
LAWS = [law.id for law in select_laws("map/log-det[inverse],map/inverse")]
TARGETS = [f"hostile/entry.py:{name}" for name in ("a", "unloadable", "b", "c", "d")]
BASELINE = Baseline(
    (
        Entry("hostile/entry.py:*", LAWS[0], "a glob that fails nowhere"),
        Entry("hostile/entry.py:a", LAWS[1], "one that fails no more"),
    )
)


@pytest.fixture(scope="module")
def options() -> Iterator[Options]:
    """Options under which a stand-in is called, in this process, instead of the check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.chdir(HERE)
        yield Options(entry="hostile.entry:check", baseline=BASELINE)


@pytest.fixture(scope="module")
def whole(options: Options) -> Report:
    """The audit in one piece."""
    return audited(options)


def audited(options: Options, shard: str = "") -> Report:
    """An audit, or a part of it, with a spec that cannot be understood among the others."""
    chosen = replace(options, shard=shard)
    return conduct([*TARGETS, "nothing at all"], LAWS, chosen, AuditListener())


def plain(report: Report) -> Report:
    """A report up to times and what was typed."""
    report = report.without_time()
    return replace(report, environment=replace(report.environment, command=""))


@given(
    number=st.integers(0, 40),
    some=st.integers(1, 30),
    count=st.integers(1, 12),
    costs=st.dictionaries(st.integers(0, 40).map(lambda n: f"f.py:t{n}"), st.floats(0, 1e4)),
)
@settings(max_examples=60)
def test_every_pair_is_in_one_shard(
    number: int, some: int, count: int, costs: dict[str, float]
) -> None:
    """However many targets, laws and parts, and whatever they cost: the parts hold every pair once,
    and are the same when they are computed again.
    """
    targets, laws = [Target("user", f"f.py:t{n}") for n in range(number)], ALL[:some]
    parts = split_into_shards(targets, laws, count, costs)
    assert len(parts) == count
    pairs = Counter(
        (name, law) for part in parts for name, chosen in part.items() for law in chosen
    )
    assert set(pairs.values()) <= {1}
    assert set(pairs) == {(str(target), law.id) for target in targets for law in laws}
    assert (
        split_into_shards(list(targets), list(laws), count, dict(reversed(costs.items()))) == parts
    )


def test_parts_cost_alike() -> None:
    """Of targets whose costs differ by a thousand the most costly part takes at most a fifth more
    than its share, and most targets stay whole.
    """
    targets = [Target("user", f"f.py:t{n}") for n in range(60)]
    costs = {str(target): 1000.0 ** (n / 60) for n, target in enumerate(targets)}
    parts = split_into_shards(targets, ALL, 4, costs)
    efforts = {law.id: law.effort for law in ALL}
    total = sum(efforts.values())
    loads = [
        sum(costs[name] * sum(efforts[law] for law in part[name]) / total for name in part)
        for part in parts
    ]
    assert max(loads) < 1.2 * sum(costs.values()) / 4
    assert sum(len(part) for part in parts) <= len(targets) + 4


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_merged_shards_are_the_whole(options: Options, whole: Report, count: int) -> None:
    """The parts of an audit, in any order and one of them twice, are the report of the undivided
    audit: verdicts, problems, known failures; also where there are more parts than pairs.
    """
    parts = [(f"{n}.json", audited(options, f"{n}/{count}")) for n in range(count, 0, -1)]
    read = [(name, Report.from_json(report.to_json())) for name, report in parts]
    merged = merge([*read, read[0]])
    assert plain(merged) == plain(whole)
    assert sum(len(report.verdicts) for _, report in parts) == len(whole.verdicts)


def test_the_whole_can_differ(options: Options, whole: Report) -> None:
    """The comparison of the property above sees one verdict that changed, and one that is gone."""
    (first, *others) = whole.verdicts
    for verdicts in ((replace(first, status=Status.ERROR), *others), tuple(others)):
        assert plain(replace(whole, verdicts=verdicts)) != plain(whole)


def test_an_interrupted_shard_goes_on_alone(options: Options, tmp_path: Path) -> None:
    """The journals of two parts in one folder are apart: each goes on with its own."""
    kept = replace(options, folder=tmp_path)
    from hostile import entry

    entry.CALLS.clear()
    entry.INTERRUPT_AT[:] = [4]
    try:
        assert not audited(kept, "1/2").complete
    finally:
        entry.INTERRUPT_AT.clear()
    other = audited(kept, "2/2")
    entry.CALLS.clear()
    first = audited(kept, "1/2")
    assert first.complete and other.complete
    again = [call for call in entry.CALLS if call[1] is not None]
    assert 0 < len(again) < len(first.verdicts)


def edited(report: Report, **more: object) -> Report:
    """A report with another environment."""
    return replace(report, environment=replace(report.environment, **more))  # type: ignore[arg-type]  # names of fields


CHANGES = {
    "profile standard in the one, quick": lambda r: edited(r, profile="quick"),
    "seed 0 in the one, 1": lambda r: edited(r, seed=1),
    "flowref": lambda r: edited(r, flowref="9.9"),
    "numpy": lambda r: edited(r, versions=(("numpy", "1.0"),)),
    "is brief and": lambda r: r.brief(),
    "and b.json is not": lambda r: replace(r, shard=None),
    "shards of different audits": lambda r: replace(r, shard=replace(r.shard, count=3)),
    "shard 2 of 2 missing": lambda r: replace(r, shard=replace(r.shard, index=1), verdicts=()),
    "the law map/inverse of version": lambda r: replace(
        r, laws=(replace(r.laws[0], version=99), *r.laws[1:])
    ),
}


@pytest.mark.parametrize("said", CHANGES)
def test_what_does_not_belong_together_is_refused(
    options: Options, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other versions, settings, seeds and laws, a missing part, a part of another audit: one
    sentence, exit 2, no file.
    """
    first, second = audited(options, "1/2"), audited(options, "2/2")
    monkeypatch.chdir(tmp_path)
    first.save(Path("a.json"))
    CHANGES[said](second).save(Path("b.json"))  # type: ignore[no-untyped-call]  # a lambda of the table
    done = CliRunner().invoke(main, ["merge", "a.json", "b.json", "-o", "c.json"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert said in done.output
    assert not Path("c.json").exists()


def test_verdicts_that_disagree_are_refused(whole: Report) -> None:
    """The same pair with two outcomes, or with other numbers, is an error that names it; one that
    was not run yields to the other, and times may differ.
    """
    (first, *others) = whole.verdicts
    for changed, said in (
        (replace(first, status=Status.VIOLATED), "HOLDS and VIOLATED"),
        (replace(first, reason="another"), "HOLDS, with other numbers"),
    ):
        with pytest.raises(ReportError, match=f"a and b disagree on {first.law} .*: {said}"):
            merge([("a", whole), ("b", replace(whole, verdicts=(changed, *others)))])
    unrun = replace(first, status=Status.NOT_RUN, reason="no time")
    slow = replace(first, seconds=99.0)
    for changed in (unrun, slow):
        other = replace(whole, verdicts=(changed, *others))
        assert plain(merge([("a", other), ("b", whole)])) == plain(whole)
        assert plain(merge([("a", whole), ("b", other)])) == plain(whole)


def test_reports_on_different_targets_are_one(options: Options) -> None:
    """Audits of different targets, which were no parts of one, are put together in their order."""
    plainly = replace(options, baseline=Baseline())
    reports = [
        conduct([target], LAWS, plainly, AuditListener()) for target in (TARGETS[2], TARGETS[0])
    ]
    merged = merge([("a", reports[0]), ("b", reports[1])])
    assert merged.targets == (TARGETS[2], TARGETS[0])
    assert merged.verdicts == reports[0].verdicts + reports[1].verdicts


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "a/b", "4", "", "-1/2", "1/2/3"])
def test_a_malformed_shard_is_one_sentence(text: str) -> None:
    """Whatever is no i/n is refused, with an example of what is."""
    with pytest.raises(SpecError, match="such as 1/4"):
        parsed(text)


def test_shards_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """audit --shard and merge give what audit gives; a part in which nothing was decided is no
    failure, a malformed one exits 2 before anything runs, and --costs needs a --shard.
    """
    monkeypatch.chdir(tmp_path)
    words = ["audit", "torch:AffineTransform", "--in-process", "--profile", "quick"]
    words += [
        "--laws",
        "map/log-det[inverse],map/inverse,density/mass",
    ]
    run = CliRunner().invoke
    assert run(main, [*words, "--json", "w.json"]).exit_code == 0
    for n in (1, 2, 3):
        done = run(main, [*words, "--shard", f"{n}/3", "--json", f"{n}.json"])
        assert done.exit_code == 0, done.output
        assert f"this is shard {n}/3" in done.output
    done = run(main, ["merge", "3.json", "1.json", "2.json", "-o", "m.json", "--badge", "b.json"])
    assert done.exit_code == 0, done.output
    merged, whole = (Report.load(Path(name)) for name in ("m.json", "w.json"))
    assert plain(merged) == plain(whole)
    assert json.loads(Path("b.json").read_text())["color"] == "brightgreen"
    for more, said in (
        (("--shard", "4/3"), "'4/3' is no shard"),
        (("--costs", "w.json"), "--shard, which is not given"),
        (("--shard", "1/2", "--costs", "w.json"), "does not say what its targets took"),
        (("--shard", "1/2", "--costs", "gone.json"), "gone.json cannot be read"),
    ):
        done = run(main, [*words, *more])
        assert (done.exit_code, "passed" in done.output) == (2, False)
        assert said in done.output
