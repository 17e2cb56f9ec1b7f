"""The page of models of published size: resumable, and nothing that was not judged left unsaid."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import published
from flowref import registry
from flowref.model import Status, Target, Verdict
from flowref.reporting import Report
from flowref.reporting.contents import Environment, Expense, LawNote
from published_page.laws import changed
from published_page.page import page
from published_page.sizes import features, parameters

FINDINGS = Path(__file__).parents[2] / "reports" / "findings.toml"
ENVIRONMENT = Environment("0", "3.11", "here")
SMALL, LARGE = "zuko:published.maf-power", "zuko:published.maf-bsds300"
NOTES = tuple(LawNote(law, 1, "a statement", "claim", "rounding") for law in ("a/a", "a/b"))


def report(name: str, status: Status = Status.HOLDS, reason: str = "") -> Report:
    """Of one model under two laws."""
    verdicts = (Verdict(name, "a/a", status, reason), Verdict(name, "a/b", Status.HOLDS))
    spent = {name: Expense(12.0, 3 * 2**30)}
    return Report(ENVIRONMENT, NOTES, (name,), verdicts, expenses=spent)


def test_models_are_measured_once_and_small_ones_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in the report is not measured again; a run that is stopped loses the model in hand
    only, and the next goes on; ``--fresh`` measures anew.
    """
    asked: list[str] = []

    def audited(target: Target, choices: Namespace, laws: Sequence[str]) -> Report:
        asked.append(str(target))
        return replace(report(str(target)), complete=len(asked) != 2)

    monkeypatch.setattr(published, "audited", audited)
    command = [SMALL, LARGE, "--folder", str(tmp_path)]
    assert published.main(command) == published.INTERRUPTED
    assert Report.load(tmp_path / published.FILE).targets == (SMALL,)
    assert published.main(command) == 0
    assert asked == [SMALL, LARGE, LARGE]
    assert Report.load(tmp_path / published.FILE).targets == (SMALL, LARGE)
    assert published.main(command) == 0
    assert len(asked) == 3
    assert published.main([SMALL, "--fresh", "--folder", str(tmp_path)]) == 0
    assert asked[3:] == [SMALL]
    assert Report.load(tmp_path / published.FILE).targets == (LARGE, SMALL)
    assert published.main(["no:model"]) == 2


def test_models_that_other_laws_judged_are_told_and_can_be_asked_for() -> None:
    """What is missing comes first; ``--stale`` adds what a law is new to, has changed for, or is no more,
    and ``--fresh`` all; the page says how many there are.
    """
    models = [registry.parse_target(name) for name in (SMALL, LARGE)]
    one, nothing = registry.laws()[0], frozenset[str]()
    today = judged_today()
    whole = today.verdicts
    missing = [(models[1], nothing)]
    assert not changed(today)
    later = replace(whole[0], law_version=one.version + 1)
    gone = Verdict(SMALL, "a/law-that-is-gone", Status.HOLDS)
    cases = [(whole[1:], one.id), ((later, *whole[1:]), one.id), ((*whole, gone), gone.law)]
    for verdicts, law in cases:
        old = replace(today, verdicts=tuple(verdicts))
        assert published.wanted(models, old, fresh=False, stale=False) == missing
        by = [*missing, (models[0], frozenset({law}))]
        assert published.wanted(models, old, fresh=False, stale=True) == by
        anew = [*missing, (models[0], nothing)]
        assert published.wanted(models, old, fresh=True, stale=False) == anew
        text = page(old, {SMALL: (6, 60_060)}, FINDINGS)
        assert "In 1 of them 1 of the laws are new or have changed" in " ".join(text.split())
    assert published.wanted(models, today, fresh=False, stale=True) == missing


def test_laws_that_have_changed_judge_again_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--stale`` asks the changed laws alone: theirs are the new verdicts, all others stay, and so
    does what the whole audit took.
    """
    today = judged_today()
    first, *rest = today.verdicts
    old = replace(today, verdicts=(replace(first, law_version=first.law_version + 1), *rest))
    old.save(tmp_path / published.FILE)

    def audited(target: Target, choices: Namespace, laws: Sequence[str]) -> Report:
        assert list(laws) == [first.law]
        accused = replace(first, status=Status.VIOLATED, reason="seen now")
        return replace(today, verdicts=(accused,), expenses={SMALL: Expense(1.0, 1)})

    monkeypatch.setattr(published, "audited", audited)
    assert published.main([SMALL, "--stale", "--folder", str(tmp_path)]) == 0
    new = Report.load(tmp_path / published.FILE)
    assert not changed(new) and len(new.verdicts) == len(today.verdicts)
    assert [one.law for one in new.verdicts if one.status is Status.VIOLATED] == [first.law]
    assert new.expenses[SMALL].seconds == 12
    assert published.main([SMALL, "--fresh", "--laws", first.law, "--folder", str(tmp_path)]) == 0
    assert len(Report.load(tmp_path / published.FILE).verdicts) == len(today.verdicts)


def judged_today() -> Report:
    """Of one model, under all laws there are."""
    verdicts = (
        Verdict(SMALL, one.id, Status.HOLDS, law_version=one.version) for one in registry.laws()
    )
    notes = tuple(LawNote(one.id, 1, "a statement", "claim", "rounding") for one in registry.laws())
    return replace(report(SMALL), verdicts=tuple(verdicts), laws=notes)


def test_nothing_starts_after_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of no time measures nothing."""
    monkeypatch.setattr(published, "audited", lambda *_: pytest.fail("it started"))
    assert published.main([SMALL, "--budget", "-1", "--folder", str(tmp_path)]) == 0


def test_the_page_says_what_each_model_took_and_what_was_not_judged() -> None:
    """Size, seconds, memory and judged laws of each model; a reason, with the model and the law, of
    everything that was not judged; and every accusation.
    """
    unjudged = report(LARGE, Status.CRASHED, "needs 9 GiB")
    violated = report("nflows:published.maf-gas", Status.VIOLATED)
    both = published.joined(published.joined(report(SMALL), unjudged), violated)
    text = page(both, dict.fromkeys(both.targets, (6, 60_060)), FINDINGS)
    row = next(line for line in text.splitlines() if line.startswith(f"| `{SMALL}`"))
    assert "| 6 | 60,060 | 12 | 3,072 MiB | 2 of 2 | 2 passed |" in row
    assert f"| crashed | needs 9 GiB | `{LARGE}` | `a/a` |" in text
    assert "50 % or more" in text and "1 is violated" in text
    assert "| `nflows:published.maf-gas` | `a/a` |" in text and "**unexplained**" in text
    assert "Papamakarios" in text


@pytest.mark.parametrize("spec", [SMALL, "pyro:published.nsf-c-power"])
def test_sizes_are_those_of_the_model(spec: str) -> None:
    """Entries of an event are those of its facts, and parameters those of what it is made of."""
    target = registry.parse_target(spec)
    facts = registry.find_component(target).facts
    assert callable(facts)
    assert (features(target),) == facts().event_shape
    assert parameters(target) > 50_000
