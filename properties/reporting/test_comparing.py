"""Comparing reports: only changes count, each kind of change is shown, both directions agree."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from flowref import registry
from flowref.cli import main
from flowref.model import Condition, Counterexample, Evidence, Problem, ReportError, Status, Verdict
from flowref.reporting.changes import change_lines, change_markdown, headline
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.name_changes import aligned, renames
from flowref.reporting.report import Report
from flowref.reporting.report_diff import ReportComparison, Trend, compare, growth, renamed_report

TARGETS, LAWS = (
    ("zuko:NSF?a=1", "nflows:MAF", "my.py:make"),
    ("family/one", "family/two", "other/three"),
)
sizes = st.sampled_from([0.0, 1e-20, 1e-9, 1e-3, 1.0, 5.0, 1e4, math.inf, math.nan])
evidence = st.none() | st.builds(
    Evidence, residual=sizes, allowed=st.sampled_from([0.0, 1e-6, 1.0])
)
outcomes = st.tuples(st.sampled_from(list(Status)), evidence, st.sampled_from(["", "why"]))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Some targets under some laws, a few pairs missing."""
    targets = tuple(draw(st.lists(st.sampled_from(TARGETS), unique=True)))
    laws = tuple(draw(st.lists(st.sampled_from(LAWS), unique=True)))
    pairs = draw(st.permutations([(target, law) for target in targets for law in laws]))
    verdicts = []
    for target, law in pairs[: draw(st.integers(0, len(pairs)))]:
        status, numbers, reason = draw(outcomes)
        verdicts.append(Verdict(target, law, status, reason, evidence=numbers))
    problems = tuple(
        Problem(spec, "no such thing")
        for spec in TARGETS
        if spec not in targets and draw(st.booleans())
    )
    notes = tuple(
        LawNote(law, draw(st.integers(1, 2)), "It holds.", "claim", "rounding") for law in laws
    )
    environment = Environment(
        "1", "3.11", "here", (("torch", draw(st.sampled_from("12"))),), seed=draw(st.integers(0, 1))
    )
    return Report(environment, notes, targets, tuple(verdicts), problems, draw(st.booleans()))


def note(law: str) -> LawNote:
    """What a report says of a law."""
    return LawNote(law, 1, "It holds.", "claim", "rounding")


BASE = Report(
    Environment("1", "3.11", "here", (("torch", "2.12"),)),
    tuple(map(note, LAWS)),
    TARGETS,
    tuple(
        Verdict(target, law, Status.HOLDS, evidence=Evidence(1e-9, 1.0))
        for target in TARGETS
        for law in LAWS
    ),
)


def with_first(report: Report, **changes: object) -> Report:
    """The report with changes in its first verdict."""
    first, *rest = report.verdicts
    changed = replace(first, **changes)  # type: ignore[arg-type]  # fields by name
    return replace(report, verdicts=(changed, *rest))


def violated(margin: float) -> Report:
    """The base report with one violation."""
    return with_first(BASE, status=Status.VIOLATED, evidence=Evidence(margin, 1.0))


@settings(max_examples=60, deadline=None)
@given(reports(), st.booleans(), st.sampled_from([1.0, 10.0]))
def test_a_report_does_not_differ_from_itself(
    report: Report, all_margins: bool, factor: float
) -> None:
    """A report compared with itself has no change, and every pair is identical."""
    comparison = compare(report, report, factor=factor, all_margins=all_margins)
    assert not comparison
    assert not comparison.reworded
    assert not comparison.drifted
    assert comparison.unchanged == len(report.verdicts)
    assert headline(comparison).startswith("nothing changed")


@settings(max_examples=100, deadline=None)
@given(reports(), reports(), st.booleans())
def test_both_directions_agree(one: Report, other: Report, all_margins: bool) -> None:
    """Read backwards, each change has its sides exchanged, and worse is better."""
    there, back = (
        compare(*sides, all_margins=all_margins) for sides in ((one, other), (other, one))
    )
    pairs = {(p.target, p.law, repr(p.new), repr(p.old), p.trend.reverse) for p in back.pairs}
    assert pairs == {(p.target, p.law, repr(p.old), repr(p.new), p.trend) for p in there.pairs}
    wholes = {
        (w.kind, w.name, not w.appeared, repr(w.verdicts), w.message, w.trend.reverse)
        for w in back.wholes
    }
    assert wholes == {
        (w.kind, w.name, w.appeared, repr(w.verdicts), w.message, w.trend) for w in there.wholes
    }
    assert (there.unchanged, there.drifted) == (back.unchanged, back.drifted)


@settings(max_examples=60, deadline=None)
@given(reports(), reports(), st.randoms(use_true_random=False))
def test_order_does_not_matter(one: Report, other: Report, chance: random.Random) -> None:
    """Verdicts, laws and targets in another order compare alike, to the letter."""

    def shuffled(report: Report) -> Report:
        return replace(
            report,
            verdicts=tuple(chance.sample(report.verdicts, len(report.verdicts))),
            laws=tuple(chance.sample(report.laws, len(report.laws))),
            targets=tuple(chance.sample(report.targets, len(report.targets))),
            problems=tuple(chance.sample(report.problems, len(report.problems))),
        )

    lines = change_lines(compare(one, other), verbose=True)
    assert change_lines(compare(shuffled(one), shuffled(other)), verbose=True) == lines


@settings(max_examples=60, deadline=None)
@given(reports(), reports())
def test_every_pair_is_accounted_for(one: Report, other: Report) -> None:
    """A pair is one of these: unchanged, changed, or part of a whole target or law."""
    comparison = compare(one, other)
    pairs = {
        (verdict.target, verdict.law) for report in (one, other) for verdict in report.verdicts
    }
    specs = {change.name for change in comparison.wholes if change.kind != "law"}
    laws = {change.name for change in comparison.wholes if change.kind == "law"}
    specs |= {problem.spec for report in (one, other) for problem in report.problems}
    apart = {pair for pair in pairs if pair[0] in specs or pair[1] in laws}
    changed = {(change.target, change.law) for change in comparison.pairs}
    assert not apart & changed
    assert len(comparison.pairs) == len(changed)
    assert comparison.unchanged == len(pairs - apart - changed)


FREE: dict[str, Callable[[Report], Report]] = {
    "seconds": lambda report: with_first(report, seconds=9.0),
    "version": lambda report: with_first(report, law_version=7),
    "reason": lambda report: with_first(report, reason="other words"),
    "a margin below 1": lambda report: with_first(report, evidence=Evidence(0.5, 1.0)),
    "environment": lambda report: replace(
        report, environment=Environment("2", "3.12", "there", seed=5)
    ),
    "a message": lambda report: replace(report, problems=(Problem("x:y", "for another reason"),)),
    "notes": lambda report: replace(
        report, laws=tuple(replace(law, version=2) for law in report.laws)
    ),
}


@pytest.mark.parametrize("name", FREE)
def test_what_is_no_change(name: str) -> None:
    """Durations, versions, free text, margins of laws that hold and the environment never count."""
    report = replace(BASE, problems=(Problem("x:y", "it left"),))
    assert not compare(report, FREE[name](report))


PLANTED: dict[str, tuple[Report, Report, Trend, str]] = {
    "violated": (BASE, violated(100.0), Trend.WORSE, "HOLDS -> VIOLATED  family/one"),
    "mended": (violated(100.0), BASE, Trend.BETTER, "VIOLATED -> HOLDS  family/one"),
    "crashed": (
        BASE,
        with_first(BASE, status=Status.CRASHED),
        Trend.WORSE,
        "HOLDS -> CRASHED  family/one",
    ),
    "no longer decided": (
        BASE,
        with_first(BASE, status=Status.INCONCLUSIVE),
        Trend.OTHER,
        "HOLDS -> INCONCLUSIVE  family/one",
    ),
    "broken otherwise": (
        violated(2.0),
        with_first(BASE, status=Status.ERROR),
        Trend.OTHER,
        "VIOLATED -> ERROR  family/one",
    ),
    "advised": (
        BASE,
        with_first(BASE, status=Status.ADVICE),
        Trend.WORSE,
        "HOLDS -> ADVICE  family/one",
    ),
    "advice that weighs more": (
        with_first(BASE, status=Status.ADVICE, evidence=Evidence(2.0, 1.0)),
        with_first(BASE, status=Status.ADVICE, evidence=Evidence(90.0, 1.0)),
        Trend.WORSE,
        "margin 2 -> 90",
    ),
    "nothing allowed": (
        with_first(BASE, status=Status.VIOLATED, evidence=Evidence(2.0, 0.0)),
        with_first(BASE, status=Status.VIOLATED, evidence=Evidence(90.0, 0.0)),
        Trend.WORSE,
        "off by 2 -> 90, nothing allowed",
    ),
    "larger": (violated(2.0), violated(21.0), Trend.WORSE, "margin 2 -> 21"),
    "smaller": (violated(21.0), violated(2.0), Trend.BETTER, "margin 21 -> 2"),
    "nan": (violated(21.0), violated(math.nan), Trend.WORSE, "margin 21 -> nan"),
    "a pair appeared": (
        replace(BASE, verdicts=BASE.verdicts[1:]),
        BASE,
        Trend.OTHER,
        "appeared: HOLDS  family/one",
    ),
    "a pair is gone": (
        BASE,
        replace(BASE, verdicts=BASE.verdicts[1:]),
        Trend.OTHER,
        "gone: HOLDS  family/one",
    ),
    "a target is gone": (
        BASE,
        replace(BASE, targets=TARGETS[1:], verdicts=BASE.verdicts[3:]),
        Trend.OTHER,
        "gone: target zuko:NSF?a=1   3 passed",
    ),
    "a target appeared": (
        replace(BASE, targets=TARGETS[1:], verdicts=BASE.verdicts[3:]),
        BASE,
        Trend.OTHER,
        "appeared: target zuko:NSF?a=1   3 passed",
    ),
    "a law appeared": (
        replace(
            BASE, laws=BASE.laws[:2], verdicts=tuple(v for v in BASE.verdicts if v.law != LAWS[2])
        ),
        BASE,
        Trend.OTHER,
        "appeared: law other/three   3 passed",
    ),
    "unloadable": (
        BASE,
        replace(
            BASE,
            targets=TARGETS[1:],
            verdicts=BASE.verdicts[3:],
            problems=(Problem(TARGETS[0], "it left"),),
        ),
        Trend.WORSE,
        "zuko:NSF?a=1 cannot be loaded: it left",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_change_is_shown_once(name: str) -> None:
    """Each kind of change is counted once, goes the right way, and stands in every format."""
    old, new, trend, line = PLANTED[name]
    comparison = compare(old, new)
    assert [comparison.count(each) for each in Trend] == [int(each is trend) for each in Trend]
    assert sum(line in each for each in change_lines(comparison)) == 1
    plain = change_markdown(comparison).replace("`", "").replace("\\", "").replace("&gt;", ">")
    assert line in plain
    assert f"## {trend.capitalize()}" in plain


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [(2.0, 20.0, 10.0), (2.0, 3.0, 1.6), (math.inf, math.inf, 1.0), (math.nan, math.nan, 1.0)],
)
def test_small_changes_of_margin_do_not_count(old: float, new: float, factor: float) -> None:
    """A margin that changes by no more than the factor is the same, in both directions."""
    assert not compare(violated(old), violated(new), factor=factor)
    assert not compare(violated(new), violated(old), factor=factor)


@pytest.mark.parametrize(
    ("residual", "changed"),
    [(1e-9, False), (1.1e-8, True), (0.9, True), (0.0, True), (5e-10, False)],
)
def test_all_margins_count_on_request(residual: float, changed: bool) -> None:
    """With all margins, those of laws that hold are compared by the same factor."""
    other = with_first(BASE, evidence=Evidence(residual, 1.0))
    assert bool(compare(BASE, other, all_margins=True)) is changed


def test_rounding_is_no_change_of_margin() -> None:
    """Residuals up to what rounding explains are all the same, even where all margins count."""
    one, other = (
        with_first(BASE, evidence=Evidence(size, 1.0, explained=1e-12)) for size in (0.0, 9e-13)
    )
    assert not compare(one, other, factor=1.0, all_margins=True)
    assert compare(
        one, with_first(BASE, evidence=Evidence(1e-10, 1.0, explained=1e-12)), all_margins=True
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (Evidence(2.0, 1.0), Evidence(1.0, 1.0), 0.5),
        (Evidence(2.0, 0.0), Evidence(6.0, 0.0), 3.0),
        (Evidence(0.0, 1.0), Evidence(1.0, 1.0), math.inf),
        (Evidence(math.nan, 1.0), Evidence(1.0, 1.0), 0.0),
        (Evidence(math.nan, 1.0), Evidence(math.nan, 2.0), 1.0),
        (Evidence(math.nan, 1.0), Evidence(math.inf, 1.0), math.nan),
        (Evidence(math.inf, 1.0), Evidence(3.0, 0.0), 1.0),
    ],
)
def test_growth(old: Evidence, new: Evidence, expected: float) -> None:
    """The growth of a margin is a ratio, of residuals where nothing is allowed; nan is infinite."""
    assert growth(old, new) == pytest.approx(expected, nan_ok=True)


def test_circumstances_come_first() -> None:
    """Versions, seeds and laws measured anew are listed below the counts, before any change."""
    environment = Environment("2", "3.11", "here", (("torch", "2.13"), ("flowref", "2")), seed=4)
    other = replace(
        violated(3.0),
        environment=environment,
        laws=(replace(BASE.laws[0], version=2), *BASE.laws[1:]),
        complete=False,
    )
    lines = change_lines(compare(BASE, other))
    assert lines[0] == "1 worse, 0 better, 0 other, 8 unchanged"
    expected = [
        "flowref: 1 -> 2",
        "torch: 2.12 -> 2.13",
        "seed: 0 -> 4",
        "version of family/one: 1 -> 2",
        "audit: whole -> interrupted",
    ]
    assert [line.strip() for line in lines[1 : lines.index("worse") - 1]] == expected


def test_changes_are_ordered_and_grouped() -> None:
    """Worse, better, other; crashes first; what changed alike under one law stands together."""
    targets = [f"lib:T{n}" for n in range(9)]
    old = [Verdict(target, law, Status.HOLDS) for target in targets for law in LAWS]
    new = list(old)
    for place in range(0, 21, 3):
        new[place] = replace(new[place], status=Status.TIMEOUT, reason="slow")
    new[21] = replace(new[21], status=Status.INCONCLUSIVE, reason="unclear")
    new[4] = replace(new[4], status=Status.CRASHED, reason="killed")
    old[7] = replace(old[7], status=Status.ERROR, reason="it raised")
    reports = [
        Report(BASE.environment, BASE.laws, tuple(targets), tuple(verdicts))
        for verdicts in (old, new)
    ]
    assert change_lines(compare(*reports)) == [
        "8 worse, 1 better, 1 other, 17 unchanged",
        "",
        "worse",
        "  HOLDS -> CRASHED  family/two",
        "    lib:T1   killed",
        "  HOLDS -> TIMEOUT  family/one   slow",
        *(f"    lib:T{n}" for n in range(7)),
        "",
        "better",
        "  ERROR -> HOLDS  family/two",
        "    lib:T2   was: it raised",
        "",
        "other",
        "  HOLDS -> INCONCLUSIVE  family/one",
        "    lib:T7   unclear",
    ]


@pytest.mark.parametrize(
    ("target", "case", "expected"),
    [
        ("lib:T", Counterexample([[1.0]], None, 0, Condition()), True),
        ("lib:T", None, False),
        ("object:T", Counterexample([[1.0]], None, 0, Condition()), False),
    ],
)
def test_only_what_replays_is_offered(
    target: str, case: Counterexample | None, expected: bool
) -> None:
    """The line that replays a violation needs a target that loads anywhere, and an input."""
    one, other = (
        Report(BASE.environment, verdicts=(Verdict(target, "l/l", status, counterexample=case),))
        for status in (Status.HOLDS, Status.VIOLATED)
    )
    lines = change_lines(compare(one, other), "new report.json")
    assert any("--report 'new report.json'" in line for line in lines) is expected


@settings(max_examples=100, deadline=None)
@given(reports(), reports(), st.sampled_from([(True, False), (False, True), (True, True)]))
def test_brief_reports_show_the_same_changes(
    one: Report, other: Report, brief: tuple[bool, bool]
) -> None:
    """In brief, on either side or both, the same pairs change the same way, none is gone, and that
    the report is brief is among the circumstances.
    """
    full = compare(one, other)
    sides = zip((one, other), brief, strict=True)
    short = compare(*(report.brief() if shorten else report for report, shorten in sides))

    def outline(comparison: ReportComparison) -> object:
        pairs = [
            (p.target, p.law, p.trend, p.old and p.old.status, p.new and p.new.status)
            for p in comparison.pairs
        ]
        wholes = [(w.kind, w.name, w.appeared, w.trend) for w in comparison.wholes]
        return sorted(map(str, pairs)), wholes, comparison.unchanged, comparison.reworded

    assert outline(short) == outline(full)
    words = ["brief" if flag else "full" for flag in brief]
    assert any(f"report: {words[0]} -> {words[1]}" in line for line in change_lines(short))


def test_margins_that_a_brief_report_lacks_are_not_compared() -> None:
    """All margins are refused in one sentence where a report is brief."""
    with pytest.raises(ReportError, match="one report is brief"):
        compare(BASE.brief(), BASE, all_margins=True)
    assert not compare(BASE.brief(), BASE)


def test_reworded_failures_are_shown_on_request() -> None:
    """A failure whose text alone changed is unchanged, and shown when everything is asked for."""
    new = with_first(violated(2.0), reason="a reason anew")
    comparison = compare(violated(2.0), new)
    assert not comparison
    assert not any("reason anew" in line for line in change_lines(comparison))
    assert any("reason anew" in line for line in change_lines(comparison, verbose=True))


def test_other_numbers_are_shown_on_request() -> None:
    """Unchanged pairs measured with other numbers are counted by law when everything is wanted."""
    new = with_first(BASE, evidence=Evidence(math.nextafter(1e-9, 1), 1.0))
    comparison = compare(BASE, new)
    assert not comparison
    assert comparison.drifted == ((LAWS[0], 1),)
    assert len(change_lines(comparison)) == 1
    assert change_lines(comparison, verbose=True)[-2:] == [
        "unchanged, with other numbers",
        "  family/one   1",
    ]
    assert "- `family/one`   1" in change_markdown(comparison, verbose=True)


@pytest.mark.parametrize("count", [1, 5, 6, 40])
def test_long_lists_are_cut_unless_asked_for(count: int) -> None:
    """What is neither worse nor better shows a few targets and a number, or all on request."""

    def report(status: Status) -> Report:
        verdicts = tuple(Verdict(f"lib:T{n}", "l/l", status, "why") for n in range(count))
        return Report(BASE.environment, (note("l/l"),), tuple(v.target for v in verdicts), verdicts)

    comparison = compare(report(Status.NOT_RUN), report(Status.HOLDS))
    for verbose in (False, True):
        lines = change_lines(comparison, verbose=verbose)
        shown = sum("lib:T" in line for line in lines)
        assert shown == (count if verbose else min(count, 5))
        assert any(f"and {count - shown} more" in line for line in lines) is (shown < count)


@pytest.mark.parametrize("count", [1, 5, 6, 40])
def test_many_targets_of_one_library_share_a_line(count: int) -> None:
    """Many targets of a library that appeared are one line, unless all are asked for."""
    targets = tuple(f"lib:T{n}" for n in range(count))
    verdicts = tuple(Verdict(target, LAWS[0], Status.HOLDS) for target in targets)
    comparison = compare(
        BASE, replace(BASE, targets=(*TARGETS, *targets), verdicts=(*BASE.verdicts, *verdicts))
    )
    assert comparison.count(Trend.OTHER) == count
    lines = change_lines(comparison)
    assert sum("lib:" in line for line in lines) == (1 if count > 5 else count)
    assert (f"  appeared: {count} targets lib:*   {count} passed" in lines) is (count > 5)
    assert sum("lib:T" in line for line in change_lines(comparison, verbose=True)) == count


def test_renamed_laws_and_targets_are_no_change() -> None:
    """Laws under former ids and renamed targets are what they are, whichever side is older."""
    former = {"ancient/one": LAWS[0]}
    old = renamed_report(
        BASE, {LAWS[0]: "ancient/one", TARGETS[0]: "zuko:Old?a=1&b=2", TARGETS[1]: "flows:MAF"}
    )
    assert compare(old, BASE)
    options = ["zuko:Old?a=1&b=2=zuko:NSF?a=1", "flows:*=nflows:*"]
    assert not compare(*aligned(old, BASE, options, former))
    assert not compare(*aligned(renamed_report(BASE, {LAWS[0]: "ancient/one"}), BASE, (), former))
    assert not compare(*aligned(BASE, renamed_report(BASE, {LAWS[0]: "ancient/one"}), (), former))
    broken = [
        Report(BASE.environment, problems=(Problem(spec, "it left"),)) for spec in ("a:b", "c:d")
    ]
    assert not compare(*aligned(broken[0], broken[1], ["a:b=c:d"], former))


def test_of_laws_that_became_one_the_gravest_counts() -> None:
    """Where two former laws are one now, a violation of either was a violation, in any order."""
    former = dict.fromkeys(LAWS[:2], "new/law")
    for report in (violated(3.0), replace(violated(3.0), verdicts=violated(3.0).verdicts[::-1])):
        old = renamed_report(report, former)
        statuses = {
            change.old.status
            for change in compare(old, renamed_report(BASE, former)).pairs
            if change.old
        }
        assert statuses == {Status.VIOLATED}
        assert not compare(old, old)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("zuko:NFS=nflows:MAF", "no target and no law of the old report (did you mean zuko:NSF"),
        ("nothing*=zuko:*", "no target and no law"),
        ("nflows:MAF=nflows:MAFF", "no name that the new report has (did you mean nflows:MAF"),
        ("nflows:*=nowhere:*", "no name that the new report has"),
        (
            "nflows:MAF=zuko:NSF?a=1",
            "--rename makes two of the old report's names one: zuko:NSF?a=1",
        ),
        ("nflows:MAF", "is no pair"),
        ("nflows:*=zuko:NSF", "is no pair"),
        ("=zuko:NSF", "is no pair"),
    ],
)
def test_a_misspelt_rename_is_refused(option: str, message: str) -> None:
    """A rename that matches nothing, leads nowhere or is no pair is refused in a sentence."""
    with pytest.raises(ReportError, match="--rename") as caught:
        renames([option], BASE, BASE)
    assert message in str(caught.value)


def test_renames_go_together() -> None:
    """Names may be exchanged, the first option for a name wins, and no two names become one."""
    one, other = LAWS[:2]
    assert renames([f"{one}={other}", f"{other}={one}"], BASE, BASE) == {one: other, other: one}
    old = renamed_report(BASE, {TARGETS[0]: "lib:A", TARGETS[1]: "lib:B"})
    options = [f"lib:A={TARGETS[0]}", f"lib:B={TARGETS[1]}", f"lib:A={TARGETS[2]}"]
    assert not compare(*aligned(old, BASE, options, {}))
    with pytest.raises(ReportError, match="makes two of the old report's names one"):
        renames([f"lib:A={TARGETS[0]}", f"lib:B={TARGETS[0]}"], old, BASE)


HOSTILE = "<script>x</script> | [link](http://evil) \x1b[31m\n# heading"


def test_nothing_from_a_target_acts_as_markup() -> None:
    """Names and reasons from a target stay on their line, without control characters or HTML."""
    verdict = Verdict(HOSTILE, HOSTILE, Status.HOLDS, HOSTILE)
    one, other = (
        Report(
            Environment(HOSTILE, HOSTILE, HOSTILE),
            verdicts=(replace(verdict, status=status),),
            problems=problems,
        )
        for status, problems in (
            (Status.HOLDS, ()),
            (Status.ERROR, (Problem("x" + HOSTILE, HOSTILE),)),
        )
    )
    comparison = compare(one, other)
    text = change_markdown(comparison, verbose=True)
    assert comparison.count(Trend.WORSE) == 2
    assert "\x1b" not in text
    assert "\n# heading" not in text
    assert "<script>" not in "".join(text.split("`")[::2])
    assert not any(
        "\n" in line or "\x1b" in line for line in change_lines(comparison, verbose=True)
    )


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with three reports."""
    monkeypatch.chdir(tmp_path)
    case = Counterexample([[1.0]], None, 0, Condition())
    BASE.save(tmp_path / "old.json")
    with_first(violated(3.0), counterexample=case).save(tmp_path / "new.json")
    renamed_report(BASE, {TARGETS[0]: "zuko:Old"}).save(tmp_path / "renamed.json")
    return tmp_path


def test_the_command(folder: Path) -> None:
    """0 where nothing changed, 1 where something did; counts first, and a line that replays."""
    assert flowref("diff", "old.json", "old.json").exit_code == 0
    done = flowref("diff", "old.json", "new.json", "--markdown", "out.md")
    assert done.exit_code == 1
    assert done.output.startswith("1 worse, 0 better, 0 other, 8 unchanged\n")
    (name,) = (verdict.id for verdict in Report.load(folder / "new.json").violations)
    assert f"flowref replay {name} --report new.json" in done.output
    page = flowref("diff", "old.json", "new.json", "--markdown", "-")
    assert page.exit_code == 1
    assert page.stdout == (folder / "out.md").read_text()
    assert flowref("diff", "old.json", "new.json", "--factor", "2").exit_code == 1
    assert flowref("diff", "renamed.json", "old.json").exit_code == 1
    assert "--rename OLD=NEW" in flowref("diff", "renamed.json", "old.json").output
    assert (
        flowref("diff", "renamed.json", "old.json", "--rename", f"zuko:Old={TARGETS[0]}").exit_code
        == 0
    )


def test_the_command_reads_former_ids(folder: Path) -> None:
    """A report in which the laws of the catalogue bear their former ids differs in nothing."""
    older = {new: old for old, new in registry.former().items()}
    laws = [law for law in registry.laws() if law.id in older]
    assert laws
    today = Report(
        BASE.environment,
        tuple(note(law.id) for law in laws),
        ("a:b",),
        tuple(Verdict("a:b", law.id, Status.HOLDS) for law in laws),
    )
    today.save(folder / "today.json")
    renamed_report(today, older).save(folder / "ancient.json")
    for arguments in (("ancient.json", "today.json"), ("today.json", "ancient.json")):
        assert flowref("diff", *arguments).exit_code == 0
    assert compare(Report.load(folder / "ancient.json"), today)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.json", "old.json"), "cannot be read"),
        (("old.json", "text.json"), "is not JSON"),
        (("old.json", "foreign.json"), "no flowref report"),
        (("schema.json", "old.json"), "has report schema 1, and this flowref reads"),
        (("old.json", "new.json", "--rename", "a=b"), "matches no target and no law"),
        (("old.json", "new.json", "--factor", "0.5"), "0.5 is not in the range"),
        (("old.json", "new.json", "--markdown", "no/such/page.md"), "no folder"),
        (("old.json",), "Missing argument 'NEW.json'"),
    ],
)
def test_mistakes_are_sentences(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    """A missing or foreign file, another schema and a wrong option are a sentence and exit 2."""
    (folder / "text.json").write_text("not at all")
    (folder / "foreign.json").write_text("{}")
    (folder / "schema.json").write_text('{"flowref-report": 1}')
    done = flowref("diff", *arguments)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_an_empty_comparison_is_false() -> None:
    """A comparison without changes is false, whatever it counted."""
    assert not ReportComparison(unchanged=3)
