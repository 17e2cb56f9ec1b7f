"""The soak: healthy subjects under every law, under one root seed after another.

No accusation in n pairs bounds the rate of false accusations per pair by 3/n with 95 % confidence
(the rule of three: (1 - r)^n = 0.05 has r < 3/n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowref.auditing.audit_run import conduct
from flowref.auditing.journal import own_digest
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.power.lines import append_line, read_lines
from flowref.auditing.selftest import alarms, healthy_specs
from flowref.model import Status
from flowref.reporting.outcomes import BROKEN
from flowref.reporting.report import Report

# The rule of three.
RULE = 3.0


@dataclass(frozen=True)
class Round:
    """All healthy subjects under all laws, under one root seed.

    ``digest``: of flowref's source; ``pairs``: that were judged; ``points``: that were judged in
    them; ``alarms``: how many accuse or broke; ``accused``: these, as "target law: reason".
    """

    seed: int
    profile: str
    digest: str
    subjects: int
    pairs: int
    points: int
    alarms: int
    accused: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Soak:
    """Rounds together."""

    rounds: tuple[Round, ...]

    @property
    def pairs(self) -> int:
        """Pairs that were judged."""
        return sum(one.pairs for one in self.rounds)

    @property
    def points(self) -> int:
        """Points that were judged."""
        return sum(one.points for one in self.rounds)

    @property
    def alarms(self) -> int:
        """Accusations of healthy subjects."""
        return sum(one.alarms for one in self.rounds)

    @property
    def bound(self) -> float | None:
        """The rate of false accusations per pair that silence excludes with 95 % confidence; None
        where there was one, or nothing was judged.
        """
        return RULE / self.pairs if self.pairs and not self.alarms else None


def soak(
    path: Path,
    points: int,
    options: Options,
    listener: AuditListener,
    show: Callable[[Round, Soak], None],
) -> Soak:
    """Rounds under the root seeds ``options.seed``, + 1, ... until so many points were judged in all.
    Each is appended to a file of JSON lines; rounds of the same source in it count, so that a soak
    goes on where it was ended.
    """
    earlier = [one for one in read_rounds(path) if one.digest == own_digest()]
    done = Soak(tuple(one for one in earlier if one.profile == options.profile))
    seed = options.seed
    while done.points < points:
        if seed not in {one.seed for one in done.rounds}:
            one = round_of(seed, options, listener)
            append_line(path, one)
            done = Soak((*done.rounds, one))
            show(one, done)
            if not one.pairs:
                break
        seed += 1
    return done


def round_of(seed: int, options: Options, listener: AuditListener) -> Round:
    """One round. A KeyboardInterrupt ends it, and is raised again: half a round counts nowhere."""
    report = conduct(healthy_specs(), (), replace(options, seed=seed), listener)
    if not report.complete:
        raise KeyboardInterrupt
    return soak_round(report, seed, options.profile)


def soak_round(report: Report, seed: int, profile: str) -> Round:
    """The round that an audit of all healthy subjects is."""
    judged = [verdict for verdict in report.verdicts if verdict.counts.held or verdict.evidence]
    accused = report.with_status(Status.VIOLATED, *BROKEN)
    return Round(
        seed,
        profile,
        own_digest(),
        len(report.targets),
        len(judged),
        sum(verdict.counts.held for verdict in report.verdicts),
        alarms(report),
        tuple(f"{verdict.target} {verdict.law}: {verdict.reason}" for verdict in accused),
        report.environment.seconds,
    )


def read_rounds(path: Path) -> tuple[Round, ...]:
    """The rounds of a file; none where there is no file.

    Raises: `ReportError` naming the line that is no round.
    """
    return tuple(read_lines(path, _round, "round of a soak"))


def _round(fields: dict[str, Any]) -> Round:
    return Round(**{**fields, "accused": tuple(fields["accused"])})
