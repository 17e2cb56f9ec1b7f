"""The self-test goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from flowref import registry
from flowref.auditing import selftest
from flowref.auditing.options import AuditListener, Options
from flowref.cli import main
from flowref.cli.interruption import INTERRUPTED
from flowref.model import Mutant, Status, Verdict
from flowref.reporting import Report
from scorecard.samples import ENVIRONMENT


@pytest.mark.parametrize("mutant", sorted(selftest.MEANINGLESS))
def test_what_has_no_meaning_is_a_mutant(mutant: str) -> None:
    """Each defect that is excused where its host is missing exists, and is tried where it is there."""
    found = registry.find_mutant(mutant)
    if selftest.here(found.host):
        assert selftest.hosts_of(found) == (found.host,)
    else:
        assert selftest.trial(found, "quick").word == "no host"


def test_what_was_interrupted_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that were not run are not counted among those without a false alarm."""
    verdicts = [Verdict("t", f"law/{k}", Status.NOT_RUN if k else Status.HOLDS) for k in range(5)]
    report = Report(ENVIRONMENT, (), ("t",), tuple(verdicts), complete=False)
    monkeypatch.setattr(selftest, "selftest", lambda *_: ([], report))
    done = CliRunner().invoke(main, ["selftest", "--quick"])
    assert "1 healthy subjects, 1 pairs, 0 false alarms\n4 pairs are left" in done.stdout
    assert done.exit_code == INTERRUPTED


def test_trials_that_were_made_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an interrupted run tried is not tried again, and nothing is kept of a complete one."""
    mutants = registry.mutants()[:3]
    asked: list[str] = []

    def trial(mutant: Mutant, profile: str, seed: int) -> selftest.Trial:
        asked.append(mutant.id)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return selftest.Trial(mutant, mutant is not mutants[1], "outcome", mutant.host)

    def once() -> list[selftest.Trial]:
        found: Any = selftest.selftest(Options(folder=tmp_path), AuditListener(), lambda *_: None)
        return list(found[0])

    monkeypatch.setattr(registry, "mutants", lambda: mutants)
    monkeypatch.setattr(selftest, "trial", trial)
    monkeypatch.setattr(selftest, "healthy", lambda *_: SimpleNamespace(complete=True))
    with pytest.raises(KeyboardInterrupt):
        once()
    missed = once()
    assert asked == [*(mutant.id for mutant in mutants), mutants[2].id]
    assert [one.mutant for one in missed] == [mutants[1]]
    assert not list(tmp_path.iterdir())
