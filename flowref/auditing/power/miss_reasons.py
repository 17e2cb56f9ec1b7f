"""Reasons for which laws missed planted defects.

Two measurements: the kill matrix records, for each planted defect, the laws that reported it and
why the expected ones did not; transplants put each mutant into further healthy code of other
styles, under its own law.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flowref import checking, loading, registry
from flowref.auditing.power.kills import TELLING, Kill
from flowref.auditing.worker import check_pair, guarded, undisturbed
from flowref.model import Mutant, NotJudged, Status, Verdict, one_line, seed_of

# Kinds of silence.
WAITS, ELSEWHERE, UNDECIDED, HELD, BROKE = "waits", "elsewhere", "undecided", "held", "broke"
REPORTED, MISFIT = "told", "misfit"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(\.\d+)?(e[-+]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Transplant:
    """The result of a law on its own mutant in another host. ``outcome``: told (reported), misfit
    (the mutant does not fit), or the kind of silence; ``reason``: that of the verdict.
    """

    mutant: str
    host: str
    outcome: str
    reason: str = ""

    @property
    def law(self) -> str:
        """The law of the mutant."""
        return self.mutant.partition("#")[0]


@dataclass(frozen=True)
class MissReason:
    """One reason, and the defects missed because of it: ``mutants`` in other hosts, and ``planted``
    defects of the kill matrix. ``laws``: those that gave it.
    """

    reason: str
    kind: str
    mutants: tuple[str, ...]
    planted: tuple[str, ...]
    laws: tuple[str, ...]


def hosts_of(mutant: Mutant, hosts: Sequence[str]) -> list[str]:
    """Return the hosts except the mutant's own, in an order that depends on the mutant."""
    others = [host for host in hosts if host != mutant.host]
    return sorted(others, key=lambda host: seed_of(mutant.id, host))


def transplanted(mutant: Mutant, host: str, settings: Any) -> Transplant:
    """Return the result of a mutant's law in another host; nothing is measured if the law does not
    apply to the host.
    """
    silence = silence_of(mutant, host, settings)
    if silence is not None:
        return Transplant(mutant.id, host, WAITS if silence.blocked else ELSEWHERE, silence.reason)
    target = registry.parse_target(host).with_options(mutant=mutant.id)
    outcome = guarded(check_pair, target, mutant.law, settings)
    if outcome.verdict is None:
        return Transplant(mutant.id, host, MISFIT, outcome.raised)
    kind, reason = silence_kind(outcome.verdict), outcome.verdict.reason
    return Transplant(mutant.id, host, kind, reason)


def silence_of(mutant: Mutant, host: str, settings: Any) -> NotJudged | None:
    """Return why the law of a mutant does not apply to a healthy host; None if it does."""
    law = registry.find_law(mutant.law)
    condition = law.condition
    try:
        with undisturbed():
            subject = loading.load(registry.parse_target(host), condition)
            return checking.not_applicable(law, subject, settings)
    except Exception as error:
        return NotJudged(one_line(error))


def silence_kind(verdict: Verdict) -> str:
    """The kind of a verdict's silence; `REPORTED` if it reports."""
    if verdict.status in TELLING:
        return REPORTED
    if verdict.status is Status.NOT_APPLICABLE:
        return WAITS if verdict.blocked else ELSEWHERE
    named = {Status.INCONCLUSIVE: UNDECIDED, Status.HOLDS: HELD}
    return named.get(verdict.status, BROKE)


def transplants(
    mutants: Iterable[Mutant], hosts: Sequence[str], each: int, journal: Path, settings: Any
) -> Iterator[Transplant]:
    """Yield the transplants of every mutant into ``each`` fitting hosts; those in the journal are
    not repeated.
    """
    known = {(one.mutant, one.host): one for one in read_transplants(journal)}
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as file:
        for mutant in mutants:
            fitting = 0
            for host in hosts_of(mutant, hosts)[: 4 * each]:
                if fitting == each:
                    break
                one = known.get((mutant.id, host))
                if one is None:
                    one = transplanted(mutant, host, settings)
                    file.write(json.dumps(asdict(one)) + "\n")
                    file.flush()
                # A host to which the law does not apply does not count.
                fitting += one.outcome not in (MISFIT, ELSEWHERE)
                yield one


def read_transplants(journal: Path) -> list[Transplant]:
    """Return the transplants of a journal; a truncated line is dropped."""
    if not journal.is_file():
        return []
    found = []
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            found.append(Transplant(**json.loads(line)))
        except (ValueError, TypeError):
            break
    return found


def general(reason: str) -> str:
    """Return a reason without its numbers, to count equal kinds together.

    >>> general("3 points undecided: it has 12")
    '# points undecided: it has #'
    """
    return NUMBER.sub("#", reason.partition(" (")[0]) or "no reason given"


def miss_reasons(found: Iterable[Transplant], killed: Iterable[Kill]) -> tuple[MissReason, ...]:
    """Return the reasons for which laws missed a defect, those with the most defects first."""
    mutants: dict[tuple[str, str], set[str]] = {}
    planted: dict[tuple[str, str], set[str]] = {}
    laws: dict[tuple[str, str], set[str]] = {}
    for one in found:
        if one.outcome in (REPORTED, MISFIT):
            continue
        key = (general(one.reason), one.outcome)
        mutants.setdefault(key, set()).add(f"{one.mutant} in {one.host}")
        laws.setdefault(key, set()).add(one.law)
    for kill in killed:
        for law, silence in {} if kill.caught else kill.silence.items():
            status, _, reason = silence.partition(" ")
            key = (general(reason), _kind_of_text(status))
            planted.setdefault(key, set()).add(kill.spec)
            laws.setdefault(key, set()).add(law)
    rows = [
        MissReason(*key, *(tuple(sorted(table.get(key, ()))) for table in (mutants, planted, laws)))
        for key in laws
    ]
    return tuple(sorted(rows, key=lambda row: (-len(row.planted), -len(row.mutants), row.reason)))


def _kind_of_text(status: str) -> str:
    named = {"NOT_APPLICABLE": ELSEWHERE, "INCONCLUSIVE": UNDECIDED, "HOLDS": HELD}
    return named.get(status, BROKE)


def miss_reasons_to_json(rows: Sequence[MissReason], found: Sequence[Transplant]) -> dict[str, Any]:
    """The table as plain values."""
    outcomes = [one.outcome for one in found]
    return {
        "outcomes": {kind: outcomes.count(kind) for kind in sorted(set(outcomes))},
        "excuses": [asdict(row) for row in rows],
    }


def healthy_hosts() -> tuple[str, ...]:
    """The healthy twins of the zoo: user code in many styles."""
    return tuple(sorted(registry.specimens()))


def mutants_of(globs: Sequence[str]) -> tuple[Mutant, ...]:
    """The mutants of the laws that match the globs; all without globs."""
    laws = {law.id for law in registry.select_laws(tuple(globs))}
    return tuple(mutant for mutant in registry.mutants() if mutant.law in laws)
