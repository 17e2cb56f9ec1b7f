"""The contents of a report besides its verdicts, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """Versions, platform, settings and time of an audit."""

    flowref: str
    python: str
    platform: str
    versions: tuple[tuple[str, str], ...] = ()
    command: str = ""
    profile: str = "standard"
    seed: int = 0
    started: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class LawNote:
    """The facts of a law that a report contains."""

    id: str
    version: int
    statement: str
    force: str
    tolerance: str
    source: str = ""


@dataclass(frozen=True)
class Omitted:
    """Counts of a brief report: judged and undecided points of the pairs whose law holds."""

    points: int
    undecided: int


@dataclass(frozen=True)
class Expense:
    """The cost of a target's laws: CPU seconds, and the peak resident memory of their process in
    bytes, 0 if unknown.
    """

    seconds: float = 0.0
    peak: int = 0

    def __add__(self, other: Expense) -> Expense:
        return Expense(self.seconds + other.seconds, max(self.peak, other.peak))


FREE = Expense()


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``count``, from 1 on; ``targets``: those of the whole audit."""

    index: int
    count: int
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
