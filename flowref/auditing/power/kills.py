"""The kill matrix: every planted defect under every law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.power.damage import Damage, damages
from flowref.model import Status, Verdict
from flowref.reporting.report import Report

# Statuses that report a defect to the user.
TELLING = (Status.VIOLATED, Status.ADVICE)


@dataclass(frozen=True)
class Kill:
    """The result for one planted defect. ``laws``: of which one must report it; ``killers``: the
    laws that did; ``silence``: law -> why it did not, for the other ``laws``.
    """

    spec: str
    kind: str
    laws: tuple[str, ...]
    killers: tuple[str, ...]
    silence: dict[str, str]

    @property
    def caught(self) -> bool:
        """Whether one of the expected laws reported it."""
        return bool({*self.laws} & {*self.killers})


@dataclass(frozen=True)
class Strength:
    """What one law caught of all planted defects. ``kills``: reported defects; ``alone``: those
    that no other law reported; ``seconds``: of all its pairs.
    """

    law: str
    kills: int
    alone: int
    seconds: float


def matrix(options: Options, listener: AuditListener) -> Report:
    """Audit every planted defect under every law; an interrupted audit is resumed."""
    return conduct([damage.spec for damage in damages()], (), options, listener)


def kills(report: Report, planted: Sequence[Damage] | None = None) -> tuple[Kill, ...]:
    """Return the result for each planted defect, from the audit of all."""
    groups = report.by_target()
    found = []
    for damage in planted if planted is not None else damages():
        verdicts = {verdict.law: verdict for verdict in groups.get(damage.spec, ())}
        killers = tuple(law for law, verdict in verdicts.items() if verdict.status in TELLING)
        silence = {
            law: _silence_text(verdicts.get(law)) for law in damage.laws if law not in killers
        }  # fmt: skip
        found.append(Kill(damage.spec, damage.kind, damage.laws, killers, silence))
    return tuple(found)


def _silence_text(verdict: Verdict | None) -> str:
    if verdict is None:
        return "it could not be loaded"
    return f"{verdict.status} {verdict.reason}".strip()


def strengths(report: Report, killed: Sequence[Kill]) -> tuple[Strength, ...]:
    """Return what each law caught, sorted by id."""
    seconds = dict.fromkeys((note.id for note in report.laws), 0.0)
    for verdict in report.verdicts:
        seconds[verdict.law] += verdict.seconds
    all_kills = Counter(law for kill in killed for law in kill.killers)
    alone = Counter(kill.killers[0] for kill in killed if len(kill.killers) == 1)
    return tuple(
        Strength(note.id, all_kills[note.id], alone[note.id], seconds[note.id])
        for note in report.laws
    )


def missed_by_reason(report: Report, killed: Sequence[Kill]) -> Counter[str]:
    """Return reason -> number of planted defects missed because of it."""
    counts: Counter[str] = Counter()
    for kill in killed:
        if not kill.caught:
            counts.update(set(kill.silence.values()))
    return counts


def kills_to_json(report: Report) -> dict[str, Any]:
    """The matrix as plain values: defects, the laws that reported them, and what each law caught."""
    killed = kills(report)
    return {
        "flowref": report.environment.flowref,
        "profile": report.environment.profile,
        "seed": report.environment.seed,
        "complete": report.complete,
        "laws": [vars(strength) for strength in strengths(report, killed)],
        "defects": [vars(kill) for kill in killed],
    }
