"""What the power of the laws is computed from: kills, smallest sizes and the soak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowref import registry
from flowref.auditing import selftest as testing
from flowref.auditing.journal import own_digest
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.power import kills, sizes, soak
from flowref.auditing.power.damage import MUTANT, Damage, damages
from flowref.auditing.power.lines import append_line
from flowref.cli import main
from flowref.cli.interruption import INTERRUPTED
from flowref.model import Counts, Mutant, ReportError, Status, Verdict
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.report import Report

ENVIRONMENT = Environment("1", "3", "here", (), "", "quick", 0, "", 0.0)
NOTES = tuple(LawNote(law, 1, "It holds.", "claim", "exact", "") for law in ("a/one", "b/two"))
ROUND = soak.Round(0, "quick", "digest", 1, 100, 1000, 0, (), 1.0)


def report(*verdicts: Verdict) -> Report:
    """A report of verdicts by two laws."""
    targets = tuple(dict.fromkeys(verdict.target for verdict in verdicts))
    return Report(ENVIRONMENT, NOTES, targets, verdicts)


def test_everything_planted_names_laws_that_exist() -> None:
    """Every planted defect names at least one law of the catalogue."""
    known = {law.id for law in registry.laws()}
    assert all(damage.laws and known.issuperset(damage.laws) for damage in damages())


@pytest.mark.parametrize(
    ("status", "caught"),
    [
        (Status.VIOLATED, True),
        (Status.ADVICE, True),
        (Status.HOLDS, False),
        (Status.INCONCLUSIVE, False),
        (Status.NOT_APPLICABLE, False),
        (Status.ERROR, False),
    ],
)
def test_a_defect_is_caught_by_a_law_of_its_own(status: Status, caught: bool) -> None:
    """A planted defect counts as caught where a law that is to tell of it does, and by no other."""
    verdicts = report(
        Verdict("t", "a/one", status, "why"), Verdict("t", "b/two", Status.VIOLATED, "else")
    )
    (kill,) = kills.kills(verdicts, [Damage("t", ("a/one",), MUTANT)])
    assert kill.caught is caught
    assert "b/two" in kill.killers


def test_what_escaped_says_why() -> None:
    """The reasons of laws that were to tell and did not are counted, once per defect."""
    verdicts = report(
        Verdict("t", "a/one", Status.NOT_APPLICABLE, "no inverse"),
        Verdict("u", "a/one", Status.NOT_APPLICABLE, "no inverse"),
        Verdict("u", "b/two", Status.VIOLATED),
    )
    planted = [Damage("t", ("a/one",), MUTANT), Damage("u", ("a/one", "b/two"), MUTANT)]
    killed = kills.kills(verdicts, planted)
    assert kills.missed_by_reason(verdicts, killed) == {"NOT_APPLICABLE no inverse": 1}


def test_a_law_that_tells_alone_is_named() -> None:
    """A law's strength counts its kills, and those of which no other law caught_by_all."""
    verdicts = report(
        Verdict("t", "a/one", Status.VIOLATED, seconds=1.0),
        Verdict("u", "a/one", Status.VIOLATED, seconds=2.0),
        Verdict("u", "b/two", Status.VIOLATED),
    )
    planted = [Damage(name, ("a/one",), MUTANT) for name in "tu"]
    first, second = kills.strengths(verdicts, kills.kills(verdicts, planted))
    assert first == kills.Strength("a/one", 2, 1, 3.0)
    assert second == kills.Strength("b/two", 1, 0, 0.0)


def test_the_smallest_size_is_caught_and_a_smaller_one_is_not() -> None:
    """The threshold of a mutant is caught, no larger than the sizes that it declares, and the next
    smaller size escapes.
    """
    mutant = registry.find_mutant("map/log-det#log-det-relative")
    law = registry.find_law(mutant.law)
    one = sizes.threshold(mutant, "quick")
    assert one.smallest is not None
    assert one.smallest <= min(mutant.sizes)
    assert sizes.caught(mutant, law, one.smallest, "quick", 0)
    assert not sizes.caught(mutant, law, one.smallest / sizes.STEP, "quick", 0)


@pytest.mark.parametrize("guess", range(1, 24, 3))
@pytest.mark.parametrize("last", [0, 3, 11, 22, 23])
def test_the_last_step_is_found_in_few_trials(guess: int, last: int) -> None:
    """From wherever the search starts, it ends at the last step at which something is told, in
    several times fewer trials than there are steps where it starts nearby.
    """
    tried: list[int] = []

    def caught_by_all(step: int) -> bool:
        tried.append(step)
        return step <= last

    assert sizes.last_step(caught_by_all, 0, guess, 24) == last
    assert len(set(tried)) == len(tried) <= 9
    assert len(tried) <= 5 or abs(last - guess) > 3


def test_sizes_go_on_where_they_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file holds of the same source, profile and seed is not measured again; the last line of
    a mutant counts.
    """
    sized = [mutant for mutant in registry.mutants() if mutant.sizes]
    done, missing = sized[:-2], [mutant.id for mutant in sized[-2:]]
    path, made = tmp_path / "sizes.jsonl", []
    for mutant in (sized[-1], *done):
        digest = "another" if mutant is sized[-1] else own_digest()
        append_line(
            path, sizes.Threshold(mutant.id, mutant.law, (1.0,), 0.5, 1, 0, "quick", digest)
        )

    def threshold(mutant: Mutant, profile: str, seed: int) -> sizes.Threshold:
        made.append(mutant.id)
        return sizes.Threshold(mutant.id, mutant.law, (1.0,), None, 1, seed, profile, own_digest())

    monkeypatch.setattr(sizes, "threshold", threshold)
    for _ in range(2):
        every = sizes.thresholds(path, "quick", 0, lambda *_: None)
        assert [one.mutant for one in every] == [mutant.id for mutant in sized]
    assert made == missing
    assert {one.mutant for one in sizes.read_thresholds(path) if one.smallest is None} == set(
        missing
    )


def test_a_line_that_is_no_size_is_named(tmp_path: Path) -> None:
    """A file of something else is refused in one sentence that names the line."""
    path = tmp_path / "sizes.jsonl"
    path.write_text("[]\n")
    with pytest.raises(ReportError, match="line 1, is no smallest size"):
        sizes.read_thresholds(path)


def test_silence_bounds_the_rate() -> None:
    """Silence over n pairs bounds the rate by 3/n; one alarm leaves no such bound."""
    assert soak.Soak((ROUND, replace(ROUND, seed=1))).bound == 3 / 200
    assert soak.Soak((ROUND, replace(ROUND, alarms=1))).bound is None
    assert soak.Soak(()).bound is None


def test_a_soak_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that a file holds are not made again; rounds of another source do not count."""
    made = []

    def round_of(seed: int, *_: object) -> soak.Round:
        made.append(seed)
        return replace(ROUND, seed=seed, digest=own_digest())

    monkeypatch.setattr(soak, "round_of", round_of)
    path, options = tmp_path / "soak.jsonl", Options(profile="quick")
    append_line(path, ROUND)
    for points, total in ((1500, 2), (3500, 4)):
        done = soak.soak(path, points, options, AuditListener(), lambda *_: None)
        assert len(done.rounds) == total
    assert made == [0, 1, 2, 3]


@pytest.mark.parametrize("complete", [True, False])
def test_the_healthy_half_is_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    """`selftest --round` adds what it saw of healthy subjects to a soak, unless it was interrupted."""
    held = Verdict("t", "a/one", Status.HOLDS, counts=Counts(held=7))
    seen = replace(report(held, Verdict("t", "b/two", Status.NOT_APPLICABLE)), complete=complete)
    monkeypatch.setattr(testing, "selftest", lambda *_: ([], seen))
    path = tmp_path / "soak.jsonl"
    done = CliRunner().invoke(main, ["selftest", "--quick", "--seed", "3", "--round", str(path)])
    assert done.exit_code == (0 if complete else INTERRUPTED), done.output
    rounds = [(one.seed, one.pairs, one.points, one.alarms) for one in soak.read_rounds(path)]
    assert rounds == ([(3, 1, 7, 0)] if complete else [])


@pytest.mark.parametrize("line", ["{", '{"seed": 1}', "[]", '{"accused": 3}'])
def test_a_line_that_is_no_round_is_named(tmp_path: Path, line: str) -> None:
    """A file that holds something else is refused in one sentence that names the line."""
    path = tmp_path / "soak.jsonl"
    append_line(path, ROUND)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ReportError, match="line 2, is no round"):
        soak.read_rounds(path)
