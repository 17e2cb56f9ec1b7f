"""The soak: healthy subjects under every law, with one root seed after another.

No false alarm in n pairs bounds their rate per pair by 3/n with 95 % confidence (the rule of three:
(1 - r)^n = 0.05 has r < 3/n).
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
    """All healthy subjects under all laws, with one root seed. ``digest``: of flowref's source;
    ``pairs`` and ``points``: judged ones; ``alarms``: number of false alarms; ``accused``: these,
    as "target law: reason".
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
    """Several rounds."""

    rounds: tuple[Round, ...]

    @property
    def pairs(self) -> int:
        """Number of judged pairs."""
        return sum(one.pairs for one in self.rounds)

    @property
    def points(self) -> int:
        """Number of judged points."""
        return sum(one.points for one in self.rounds)

    @property
    def alarms(self) -> int:
        """Number of false alarms."""
        return sum(one.alarms for one in self.rounds)

    @property
    def bound(self) -> float | None:
        """The 95 % upper bound of the false-alarm rate per pair; None after an alarm, or without
        pairs.
        """
        return RULE / self.pairs if self.pairs and not self.alarms else None


def soak(
    path: Path,
    points: int,
    options: Options,
    listener: AuditListener,
    show: Callable[[Round, Soak], None],
) -> Soak:
    """Run rounds with root seeds ``options.seed``, + 1, ... until ``points`` points were judged.
    Rounds are appended to a JSON-lines file; those of the same source count, so that a soak can be
    resumed.
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
    """Run one round. A KeyboardInterrupt ends it and is raised again: partial rounds do not count."""
    report = conduct(healthy_specs(), (), replace(options, seed=seed), listener)
    if not report.complete:
        raise KeyboardInterrupt
    return soak_round(report, seed, options.profile)


def soak_round(report: Report, seed: int, profile: str) -> Round:
    """The round of an audit of all healthy subjects."""
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
    """Return the rounds of a file; empty without a file.

    Raises: `ReportError` naming an invalid line.
    """
    return tuple(read_lines(path, _round, "round of a soak"))


def _round(fields: dict[str, Any]) -> Round:
    return Round(**{**fields, "accused": tuple(fields["accused"])})
