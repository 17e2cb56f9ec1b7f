"""The page of models of published size: resumable, and nothing that was not judged left unsaid."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

import published
from flowref import registry
from flowref.model import Status, Target, Verdict
from flowref.reporting import Report
from flowref.reporting.contents import Environment, Expense, LawNote
from published_page.laws import outdated
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

    def audited(target: Target, choices: Namespace) -> Report:
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
    """What is missing comes first; ``--stale`` adds what a law is new to, or has changed for, and
    ``--fresh`` all; the page says how many there are.
    """
    models = [registry.parse_target(name) for name in (SMALL, LARGE)]
    (changed, *_), laws = registry.laws(), registry.laws()
    whole = [Verdict(SMALL, one.id, Status.HOLDS, law_version=one.version) for one in laws]
    today = replace(report(SMALL), verdicts=tuple(whole))
    assert not outdated(today)
    later = [replace(one, law_version=changed.version + 1) for one in whole]
    for verdicts in (whole[1:], [later[0], *whole[1:]]):
        old = replace(today, verdicts=tuple(verdicts))
        assert published.wanted(models, old, fresh=False, stale=False) == models[1:]
        assert published.wanted(models, old, fresh=False, stale=True) == models[::-1]
        assert published.wanted(models, old, fresh=True, stale=False) == models[::-1]
        assert "1 of them was judged by other laws" in page(old, {SMALL: (6, 60_060)}, FINDINGS)
    assert published.wanted(models, today, fresh=False, stale=True) == models[1:]


def test_nothing_starts_after_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of no time measures nothing."""
    monkeypatch.setattr(published, "audited", lambda target, choices: pytest.fail("it started"))
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
    assert "| 6 | 60,060 | 12 | 3,072 MiB | 2 of 2 | 2 hold |" in row
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
