"""Known failures: how entries are read, matched, judged and written."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref import registry
from flowref.baseline.baseline_file import known_failures_text, updated
from flowref.baseline.baseline_parser import load_baseline
from flowref.baseline.entry import Baseline, Entry
from flowref.baseline.entry_targets import exhausted, vet_baseline
from flowref.baseline.failure_status import overlay, stand
from flowref.model import (
    BaselineError,
    Condition,
    Counterexample,
    Evidence,
    Figure,
    KnownFailure,
    Standing,
    Status,
    Target,
    Verdict,
)
from flowref.model.figure import PIT
from flowref.reporting.contents import Environment
from flowref.reporting.markdown import to_markdown
from flowref.reporting.outcomes import tally
from flowref.reporting.report import CRASH, OK, VIOLATION, Report
from flowref.reporting.report_diff import compare
from flowref.reporting.verdict_json import verdict_to_json

LAW, OTHER = "map/log-det", "map/inverse"
TARGET = "flows.py:make?event=3"
CASE = Counterexample([[0.5, -0.25]], None, 1, Condition())
PINNED = Verdict(TARGET, LAW, Status.VIOLATED, evidence=Evidence(1e-3, 1e-6), counterexample=CASE)
HOLDS = Verdict(TARGET, LAW, Status.HOLDS)
RAISED = replace(PINNED, status=Status.ERROR, reason="it raises TypeError: no", evidence=None)
ENTRY = Entry(TARGET, LAW, "a bug", case=PINNED.id)
TODAY = datetime.date(2026, 6, 1)


def off_by(residual: float) -> Verdict:
    """The pinned pair, violated by so much."""
    return replace(PINNED, evidence=Evidence(residual, 1e-6))


def report(*verdicts: Verdict, known: tuple[KnownFailure, ...] = ()) -> Report:
    """A report of these verdicts."""
    targets = tuple(dict.fromkeys(verdict.target for verdict in verdicts))
    return Report(
        Environment("0", "3", "here", started="2026-06-01T00:00:00Z"),
        targets=targets,
        verdicts=verdicts,
        known=known,
    )


def entry_text(**changes: str) -> str:
    """An entry of pyproject.toml, its values as TOML."""
    values = {"target": f'"{TARGET}"', "law": f'"{LAW}"', "reason": '"a bug"'} | changes
    rows = [f"{key.replace('_', '-')} = {value}" for key, value in values.items() if value]
    return "\n".join(["[[tool.flowref.known]]", *rows, ""])


def written(folder: Path, project: str = "", baseline: str = "") -> Path:
    """A folder with these files."""
    for name, content in (("pyproject.toml", project), ("flowref-baseline.toml", baseline)):
        if content:
            (folder / name).write_text(content, encoding="utf-8")
    return folder


STANDS = {
    "as it did": (ENTRY, PINNED, PINNED, Standing.KNOWN),
    "a little worse": (ENTRY, PINNED, off_by(5e-3), Standing.KNOWN),
    "less": (ENTRY, PINNED, off_by(1e-5), Standing.KNOWN),
    "no more": (ENTRY, HOLDS, replace(PINNED, status=Status.HOLDS), Standing.FIXED),
    "elsewhere": (ENTRY, PINNED, replace(PINNED, status=Status.HOLDS), Standing.CHANGED),
    "where no search looks": (ENTRY, HOLDS, PINNED, Standing.KNOWN),
    "much worse": (ENTRY, PINNED, off_by(2e-2), Standing.CHANGED),
    "by raising": (ENTRY, PINNED, RAISED, Standing.CHANGED),
    "by raising elsewhere": (ENTRY, RAISED, PINNED, Standing.CHANGED),
    "below max-margin": (replace(ENTRY, max_margin=1e5), PINNED, off_by(2e-2), Standing.KNOWN),
    "above max-margin": (replace(ENTRY, max_margin=1e2), HOLDS, PINNED, Standing.CHANGED),
    "above it elsewhere": (replace(ENTRY, max_margin=1e4), off_by(1), PINNED, Standing.CHANGED),
    "unmeasurably": (
        ENTRY,
        HOLDS,
        replace(PINNED, status=Status.INCONCLUSIVE, reason="noise"),
        Standing.UNDECIDED,
    ),
    "on its last day": (replace(ENTRY, expires=TODAY), PINNED, PINNED, Standing.KNOWN),
    "too late": (
        replace(ENTRY, expires=TODAY - datetime.timedelta(1)),
        PINNED,
        PINNED,
        Standing.EXPIRED,
    ),
    "no more, too late": (
        replace(ENTRY, expires=TODAY - datetime.timedelta(1)),
        HOLDS,
        replace(PINNED, status=Status.HOLDS),
        Standing.FIXED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", STANDS)
def test_a_pinned_case_tells_how_an_entry_stands(how: str) -> None:
    """A case that fails alike is KNOWN, one that passes FIXED, one that fails otherwise CHANGED, and
    one that fails after its date EXPIRED.
    """
    entry, found, replayed, expected = STANDS[how]
    standing, detail = stand(entry, PINNED, found, replayed, TODAY)
    assert standing is expected
    assert bool(detail) is (standing is not Standing.KNOWN)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (PINNED, Standing.KNOWN),
        (HOLDS, Standing.FIXED),
        (replace(HOLDS, status=Status.NOT_APPLICABLE), Standing.FIXED),
        (replace(HOLDS, status=Status.NOT_RUN), Standing.UNDECIDED),
        (replace(HOLDS, status=Status.INCONCLUSIVE), Standing.UNDECIDED),
        (RAISED, Standing.CHANGED),
        (replace(HOLDS, status=Status.CRASHED), Standing.CHANGED),
    ],
)
def test_without_a_case_the_search_tells(found: Verdict, expected: Standing) -> None:
    """An entry without a case stands as the verdict of the audit says."""
    assert stand(replace(ENTRY, case=""), None, found, None, TODAY)[0] is expected


def test_an_error_of_another_kind_is_new() -> None:
    """A known TypeError does not cover a ValueError."""
    other = replace(RAISED, reason="it raises ValueError: no")
    assert stand(ENTRY, RAISED, RAISED, RAISED, TODAY)[0] is Standing.KNOWN
    assert stand(ENTRY, RAISED, other, other, TODAY)[0] is Standing.CHANGED


def test_an_entry_about_several_targets_is_fixed_when_none_fails() -> None:
    """A glob is known where it fails, says nothing where the law holds, and is fixed when it fails
    nowhere and all that it matches was audited.
    """
    entry = Entry("zuko:N*", LAW, "a bug")
    one, two = (Verdict(f"zuko:{name}", LAW, Status.VIOLATED) for name in ("NAF", "NSF"))
    baseline = Baseline(declared=(entry,))
    mended = [replace(verdict, status=Status.HOLDS) for verdict in (one, two)]
    assert [k.target for k in overlay(baseline, (one, mended[1]), {})] == ["zuko:NAF"]
    (fixed,) = overlay(baseline, mended, {})
    assert (fixed.target, fixed.standing) == ("zuko:N*", Standing.FIXED)
    assert overlay(baseline, mended, {}, lambda entry: False) == ()


def test_the_exit_code_is_about_what_is_new() -> None:
    """A known failure passes; a changed or expired one counts, and so does one beside it."""
    known = KnownFailure(TARGET, LAW, Standing.KNOWN)
    crash = Verdict(TARGET, OTHER, Status.CRASHED)
    assert report(PINNED).exit_code == VIOLATION
    assert report(PINNED, known=(known,)).exit_code == OK
    report(PINNED, known=(known,)).raise_for_violations()
    for standing in (Standing.CHANGED, Standing.EXPIRED):
        assert report(PINNED, known=(replace(known, standing=standing),)).exit_code == VIOLATION
    assert report(PINNED, crash, known=(known,)).exit_code == CRASH


def test_the_overlay_is_in_every_format() -> None:
    """JSON reads back exactly and has no key where nothing is known; the line counts known ones
    apart; Markdown and diff name them.
    """
    known = KnownFailure(TARGET, LAW, Standing.KNOWN, "a bug | of <sign>", issue="https://x")
    before, after = report(PINNED), report(PINNED, known=(known,))
    assert Report.from_json(after.to_json()) == after
    assert "known" not in json.loads(before.to_json())
    assert tally(after.verdicts, after.known) == "1 known"
    assert r"a bug \| of &lt;sign&gt;" in to_markdown(after)
    assert "known" in to_markdown(after.brief())
    comparison = compare(before, after)
    assert not comparison
    assert [change.new for change in comparison.standings] == [known]


def test_a_baseline_is_what_was_written(tmp_path: Path) -> None:
    """What `update` writes reads back as it was, and a second update changes nothing."""
    odd = replace(PINNED, target='it\'s/a \\ "file".py:make?event=3', reason="'\x7f\ud800\n")
    failures = (PINNED, odd, replace(RAISED, target="flows.py:raises"))
    first = updated(Baseline(), report(*failures), reason='it\'s "so"\x7f').baseline
    read = load_baseline(folder=written(tmp_path, baseline=known_failures_text(first)))
    assert known_failures_text(read) == known_failures_text(first)
    assert read.cases == first.cases
    stands = overlay(read, failures, {})
    again = updated(read, report(*failures, known=stands))
    assert (again.baseline, again.added, again.renewed) == (read, [], [])


def test_pictures_stay_in_reports() -> None:
    """A baseline keeps what a case is measured again by, and no figure."""
    seen = replace(PINNED, figure=Figure(PIT, {"counts": (1.0, 2.0)}))
    content = known_failures_text(Baseline(recorded=(ENTRY,), cases={PINNED.id: seen}))
    plain = known_failures_text(Baseline(recorded=(ENTRY,), cases={PINNED.id: PINNED}))
    assert content == plain and "counts" not in content


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters()))
def test_any_text_can_be_written(reason: str, note: str) -> None:
    """Whatever the words of people and targets are, the file is TOML that gives them back."""
    import tomllib

    verdict = replace(PINNED, reason=note)
    baseline = updated(Baseline(), report(verdict), reason=reason or "none").baseline
    data = tomllib.loads(known_failures_text(baseline).encode("utf-8").decode("utf-8"))
    assert data["known"][0]["reason"] == (reason or "none")
    assert json.loads(data["case"][PINNED.id])["law"] == LAW


def test_an_update_keeps_what_people_wrote() -> None:
    """A case that changed is recorded anew; reason, issue, margin and date stay; an expired entry
    stays as it is until it gets another date.
    """
    entry = replace(ENTRY, issue="https://x", max_margin=5e3, expires=datetime.date(2099, 1, 1))
    baseline = Baseline(recorded=(entry,), cases={PINNED.id: PINNED})
    worse = off_by(1.0)
    known = overlay(baseline, (worse,), {(TARGET, LAW): worse})
    assert known[0].standing is Standing.CHANGED
    renewed = updated(baseline, report(worse, known=known)).baseline
    assert renewed.recorded == (entry,)
    assert renewed.cases[PINNED.id].evidence == worse.evidence
    late = Baseline(recorded=(replace(entry, expires=datetime.date(2020, 1, 1)),))
    kept = updated(late, report(PINNED))
    assert (kept.baseline, len(kept.expired)) == (late, 1)


def test_an_accepted_cause_brings_what_it_explains() -> None:
    """Naming a cause records its consequences with it; naming a consequence records it alone."""
    cause, symptom, other = (
        replace(PINNED, law=law) for law in ("map/log-det", "density/mass", "same/history[repeat]")
    )
    failures = (cause, symptom, replace(other, target="flows.py:other"))
    both = updated(Baseline(), report(*failures), [cause.id])
    assert (both.added, both.along) == ([cause, symptom], [symptom])
    assert updated(Baseline(), report(*failures), [symptom.id]).added == [symptom]


def test_two_pairs_of_one_short_name_keep_their_own_cases() -> None:
    """Where short names collide, the second case gets a number."""
    other = replace(PINNED, target="flows.py:b")
    baseline = Baseline(cases={PINNED.id: other}, recorded=(replace(ENTRY, target="flows.py:b"),))
    both = updated(baseline, report(PINNED)).baseline
    assert both.cases == {PINNED.id: other, f"{PINNED.id}-2": PINNED}


def test_live_objects_are_left_out() -> None:
    """What no other process can load is not recorded, and is counted."""
    update = updated(Baseline(), report(replace(PINNED, target="object:Flow#12345678")))
    assert (update.baseline, len(update.live)) == (Baseline(), 1)


SPOILT = {
    "no such table": (entry_text() + "[[[", "pyproject.toml is not TOML: .*line 5"),
    "unknown key": (entry_text(exipres="2027-01-01"), "pyproject.toml:1: .* named 'exipres' .*expires"),
    "no reason": (entry_text(reason='" "'), "toml:1: the reason of a known failure is ' '"),
    "no target": (entry_text(target=""), "toml:1: the target of a known failure is missing"),
    "unknown law": (entry_text(law='"bijection/log-dett"'), "toml:1: .*did you mean map/log-det"),
    "glob of laws": (entry_text(law='"map/*"'), "toml:1: there is no law"),
    "margin": (entry_text(max_margin="-1"), "toml:1: max-margin is -1; expected a positive number"),
    "margin as text": (entry_text(max_margin='"big"'), "max-margin is 'big'"),
    "date as text": (entry_text(expires='"soon"'), "toml:1: expires is 'soon'; expected a date"),
    "outcome": (entry_text(outcome='"BAD"'), "outcome is 'BAD'; expected one of VIOLATED"),
    "the same twice": ("\n" + entry_text() + entry_text(), "toml:6: .* is known from .*toml:2 already"),
    "no list": ("[tool.flowref]\nknown = 3\n", "tool.flowref.known is no list of tables"),
    "case that is not there": (entry_text(case='"K7Q2"'), "toml:1: there is no case K7Q2 in"),
    "no target at all": (entry_text(target='"nonsense"'), "toml:1: the target 'nonsense' cannot be"),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILT)
def test_a_mistake_in_an_entry_is_one_sentence_with_its_line(what: str, tmp_path: Path) -> None:
    """Whatever is wrong with an entry is said with file and line, in one sentence."""
    project, expected = SPOILT[what]
    with pytest.raises(BaselineError, match=expected) as caught:
        load_baseline(folder=written(tmp_path, project=project))
    assert "\n" not in str(caught.value)


def _swapped(content: str) -> str:
    return content.replace(f'case = "{PINNED.id}"', f'case = "{OTHER_PINNED.id}"')


OTHER_PINNED = replace(PINNED, law=OTHER)
TAMPERED: dict[str, tuple[Callable[[str], str], str]] = {
    "case cut off": (lambda s: s.replace('"seed"', "seed"), r"toml:.*the case \w+ cannot be read"),
    "case of another pair": (_swapped, f"its case {OTHER_PINNED.id} is of {OTHER}"),
    "renamed case": (
        lambda s: s.replace(PINNED.id, "AAAA"),
        f"the case AAAA holds {PINNED.id}, of {LAW}",
    ),
    "law of the case": (
        lambda s: s.replace(f'"law": "{LAW}"', '"law": "nope/nope"'),
        "cannot be read .*there is no law 'nope/nope'",
    ),
    "version": (lambda s: s.replace("version = 1", "version = 7"), "has version 7"),
    "another table": (lambda s: s.replace("[case]", "[cases]"), "unknown key 'cases' .*case"),
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
def test_a_baseline_that_was_tampered_with_is_refused(how: str, tmp_path: Path) -> None:
    """A case that is damaged, renamed or another pair's is refused in one sentence."""
    baseline = updated(Baseline(), report(PINNED, OTHER_PINNED)).baseline
    spoil, expected = TAMPERED[how]
    spoilt = spoil(known_failures_text(baseline))
    assert spoilt != known_failures_text(baseline)
    with pytest.raises(BaselineError, match=expected):
        load_baseline(folder=written(tmp_path, baseline=spoilt))


def test_a_former_law_is_understood(tmp_path: Path) -> None:
    """The id that a law had before stands for the law, in entries and in cases."""
    former, now = "hygiene/deterministic", "same/history[repeat]"
    case = replace(PINNED, law=former)
    content = known_failures_text(updated(Baseline(), report(case)).baseline)
    assert former in content
    baseline = load_baseline(folder=written(tmp_path, baseline=content))
    assert baseline.recorded[0].law == now
    assert (TARGET, now) in baseline.pins([TARGET], [now])


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("flows.py:make", True),
        ("flows.py:make?event=3", True),
        ("flows.py:make?event=4", False),
        ("flows.py:*", True),
        ("*", True),
        ("flows.py:make*event=3", False),
        ("flows.py:*?event=*", True),
        ("flows_py:make", False),
        ("flows.py:mak", False),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, covered: bool) -> None:
    """A star stands for any text, everything else for itself; a target without options for all."""
    assert Entry(pattern, LAW, "").covers(TARGET) is covered


UNMATCHED = {
    "flows.py:mkae": "flows.py defines no mkae .did you mean make",
    "flow.py:make": "no library, file or package flow.py .did you mean flows.py:make",
    "zukko:NAF": "no library, file or package zukko .did you mean zuko",
    "nflows:AfineCouplingTransform": "matches no construction of nflows .did you mean AffineCoup",
    "flows.py:x*": "flows.py defines no x",
}


@pytest.mark.parametrize("target", UNMATCHED)
def test_an_entry_that_matches_nothing_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry whose target does not exist is an error that names the nearest, though it is not run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text("raise SystemExit\ndef make(event): ...\n")
    baseline = Baseline(declared=(Entry(target, LAW, "", where="pyproject.toml:3"),))
    targets = [Target("user", "flows.py:make"), Target("nflows", "AffineCouplingTransform")]
    with pytest.raises(BaselineError, match=f"pyproject.toml:3: .*{UNMATCHED[target]}"):
        vet_baseline(baseline, targets)


@pytest.mark.parametrize("target", ["flows.py:make", "flows.py:m*", "flows.py:later", "json:dumps"])
def test_an_entry_about_what_is_not_audited_is_none_of_its_business(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry whose target exists is no error in an audit of something else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text("def make(): ...\nlater = make\n")
    vet_baseline(Baseline(declared=(Entry(target, LAW, ""),)), [Target("user", "other.py:make")])


def test_a_glob_is_exhausted_when_all_that_it_matches_was_audited() -> None:
    """Only an audit of everything under a glob can tell that it is fixed."""
    glob, single = Entry("nflows:AffineC*", LAW, ""), Entry("nflows:Any", LAW, "")
    matched = [name for name in registry.components("nflows") if name.startswith("AffineC")]
    every = [Target("nflows", name) for name in matched]
    assert every
    assert exhausted(single, [])
    assert exhausted(glob, every)
    assert not exhausted(glob, every[1:])


def test_verdicts_of_cases_carry_no_time() -> None:
    """Two updates of the same failures write the same file."""
    slow = replace(PINNED, seconds=3.0)
    baselines = [updated(Baseline(), report(v)).baseline for v in (PINNED, slow)]
    assert known_failures_text(baselines[0]) == known_failures_text(baselines[1])
    assert "seconds" not in verdict_to_json(baselines[1].cases[PINNED.id])
