"""Results, one JSON line per point, appended as they come; and one point measured."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from flowref import registry
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.pool import Limits
from flowref.model import Status, TargetError
from flowref.reporting.coverage import put_to_the_test
from growth_page.grid import Point
from growth_page.rows import VARIABLE


@dataclass(frozen=True)
class Result:
    """What the audit of a point took: processor seconds, resident bytes at their highest, laws
    judged and laws that apply; ``broken``: pairs that crashed, raised or took too long; ``whole``: whether
    every pair was started within the budget of the point.
    """

    name: str
    seconds: float
    peak: int
    judged: int
    about: int
    broken: int
    violated: int
    whole: bool
    profile: str

    @property
    def share(self) -> float:
        """Of laws that apply, those that were judged."""
        return self.judged / max(self.about, 1)


def read(path: Path) -> dict[str, Result]:
    """The results of a file by name, the last of each; a line that was cut off is left out."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[result.name] = result
    return found


def append(path: Path, result: Result) -> None:
    """Keep a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def write(path: Path, results: Iterable[Result]) -> None:
    """The file anew, in the order of names, each once."""
    lines = sorted(json.dumps(asdict(result)) for result in results)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measured(point: Point, profile: str, seconds: float, memory: int, timeout: float) -> Result:
    """The audit of a point by one worker. ``seconds``: after which no pair is started; ``memory``
    in MiB and ``timeout`` in processor seconds are those of a pair.
    """
    options = Options(
        profile=profile,
        jobs=1,
        limits=Limits(timeout, memory),
        budget=seconds,
        entry="growth_page.rows:check",
    )
    os.environ[VARIABLE] = str(point.batch)
    try:
        report = conduct([registry.parse_target(point.spec)], (), options, AuditListener())
    finally:
        del os.environ[VARIABLE]
    if not report.complete:
        raise KeyboardInterrupt
    if report.problems:
        raise TargetError(report.problems[0].message)
    judged, about = put_to_the_test(report.verdicts)
    expense = next(iter(report.expenses.values()))
    counts = report.counts
    errors = counts[Status.ERROR]
    return Result(
        point.name,
        round(expense.seconds, 2),
        expense.peak,
        judged - errors,
        about,
        broken=counts[Status.CRASHED] + counts[Status.TIMEOUT] + errors,
        violated=counts[Status.VIOLATED],
        whole=not counts[Status.NOT_RUN],
        profile=profile,
    )
