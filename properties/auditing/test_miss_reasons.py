"""Excuses by the defects that they let live: counted by reason, resumed where they were left."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import registry
from flowref.auditing.power import miss_reasons
from flowref.auditing.power.kills import Kill
from flowref.auditing.power.miss_reasons import Transplant
from flowref.checking import Settings
from flowref.model import Status, Verdict

LAW = "shape/one-number-per-point[log-det]"
HOSTS = ("torch:SigmoidTransform", "torch:distributions.Normal")


@pytest.mark.parametrize(
    ("status", "blocked", "kind"),
    [
        (Status.VIOLATED, False, miss_reasons.REPORTED),
        (Status.ADVICE, False, miss_reasons.REPORTED),
        (Status.NOT_APPLICABLE, True, miss_reasons.WAITS),
        (Status.NOT_APPLICABLE, False, miss_reasons.ELSEWHERE),
        (Status.INCONCLUSIVE, False, miss_reasons.UNDECIDED),
        (Status.HOLDS, False, miss_reasons.HELD),
        (Status.ERROR, False, miss_reasons.BROKE),
    ],
)
def test_every_silence_has_a_kind(status: Status, blocked: bool, kind: str) -> None:
    """What a law said of a defect is that it told, or of which kind its silence is."""
    assert miss_reasons.silence_kind(Verdict("t", "l", status, blocked=blocked)) == kind


def test_an_interrupted_measurement_goes_on(tmp_path: Path) -> None:
    """What the journal has is not measured again, and a half-written line is."""
    journal, mutants = tmp_path / "miss_reasons.jsonl", miss_reasons.mutants_of([LAW])[:1]

    def run() -> list[Transplant]:
        return list(miss_reasons.transplants(mutants, HOSTS, 1, journal, Settings("quick")))

    first = run()
    assert miss_reasons.read_transplants(journal) == first
    text = journal.read_text()
    assert run() == first and journal.read_text() == text
    journal.write_text(text[:-5])
    assert miss_reasons.read_transplants(journal) == first[:-1]


def test_a_reason_counts_what_it_let_live() -> None:
    """Reasons of one kind are counted together, less their numbers; what was told of is none."""
    found = [
        Transplant("a/b#m", "h", miss_reasons.WAITS, "it has 3 axes"),
        Transplant("a/b#n", "h", miss_reasons.WAITS, "it has 12 axes"),
        Transplant("a/b#n", "k", miss_reasons.REPORTED),
        Transplant("a/b#n", "l", miss_reasons.MISFIT, "no such call"),
    ]
    missed = Kill("s", "mutant", ("a/c",), (), {"a/c": "INCONCLUSIVE too large"})
    caught = Kill("t", "mutant", ("a/c", "a/d"), ("a/d",), {"a/c": "INCONCLUSIVE too large"})
    rows = {row.reason: row for row in miss_reasons.miss_reasons(found, [missed, caught])}
    assert rows["it has # axes"].mutants == ("a/b#m in h", "a/b#n in h")
    assert rows["too large"].planted == ("s",)
    assert set(rows) == {"it has # axes", "too large"}


def test_hosts_are_other_code() -> None:
    """No mutant is put into its own host, and every mutant has an order of hosts of its own."""
    (mutant,) = miss_reasons.mutants_of([LAW])[:1]
    hosts = (mutant.host, *miss_reasons.healthy_hosts())
    assert mutant.host not in miss_reasons.hosts_of(mutant, hosts)
    assert set(miss_reasons.healthy_hosts()) == set(registry.specimens())
