"""Excuses by the defects that they let live: counted by reason, resumed where they were left."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import registry
from flowref.auditing.power import excuses
from flowref.auditing.power.excuses import Transplant
from flowref.auditing.power.kills import Kill
from flowref.checking import Settings
from flowref.model import Status, Verdict

LAW = "shape/one-number-per-point[log-det]"
HOSTS = ("torch:SigmoidTransform", "torch:distributions.Normal")


@pytest.mark.parametrize(
    ("status", "waits", "kind"),
    [
        (Status.VIOLATED, False, excuses.TOLD),
        (Status.ADVICE, False, excuses.TOLD),
        (Status.NOT_APPLICABLE, True, excuses.WAITS),
        (Status.NOT_APPLICABLE, False, excuses.ELSEWHERE),
        (Status.INCONCLUSIVE, False, excuses.UNDECIDED),
        (Status.HOLDS, False, excuses.HELD),
        (Status.ERROR, False, excuses.BROKE),
    ],
)
def test_every_silence_has_a_kind(status: Status, waits: bool, kind: str) -> None:
    """What a law said of a defect is that it told, or of which kind its silence is."""
    assert excuses.silence_kind(Verdict("t", "l", status, waits=waits)) == kind


def test_an_interrupted_measurement_goes_on(tmp_path: Path) -> None:
    """What the journal has is not measured again, and a half-written line is."""
    journal, mutants = tmp_path / "excuses.jsonl", excuses.mutants_of([LAW])[:1]

    def run() -> list[Transplant]:
        return list(excuses.transplants(mutants, HOSTS, 1, journal, Settings("quick")))

    first = run()
    assert excuses.read_transplants(journal) == first
    text = journal.read_text()
    assert run() == first and journal.read_text() == text
    journal.write_text(text[:-5])
    assert excuses.read_transplants(journal) == first[:-1]


def test_a_reason_counts_what_it_let_live() -> None:
    """Reasons of one kind are counted together, less their numbers; what was told of is none."""
    found = [
        Transplant("a/b#m", "h", excuses.WAITS, "it has 3 axes"),
        Transplant("a/b#n", "h", excuses.WAITS, "it has 12 axes"),
        Transplant("a/b#n", "k", excuses.TOLD),
        Transplant("a/b#n", "l", excuses.MISFIT, "no such call"),
    ]
    missed = Kill("s", "mutant", ("a/c",), (), {"a/c": "INCONCLUSIVE too large"})
    caught = Kill("t", "mutant", ("a/c", "a/d"), ("a/d",), {"a/c": "INCONCLUSIVE too large"})
    rows = {row.reason: row for row in excuses.excuses(found, [missed, caught])}
    assert rows["it has # axes"].mutants == ("a/b#m in h", "a/b#n in h")
    assert rows["too large"].planted == ("s",)
    assert set(rows) == {"it has # axes", "too large"}


def test_hosts_are_other_code() -> None:
    """No mutant is put into its own host, and every mutant has an order of hosts of its own."""
    (mutant,) = excuses.mutants_of([LAW])[:1]
    hosts = (mutant.host, *excuses.healthy_hosts())
    assert mutant.host not in excuses.hosts_of(mutant, hosts)
    assert set(excuses.healthy_hosts()) == set(registry.specimens())
