"""What a report holds beside its verdicts: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """Where, with what and how an audit ran."""

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
    """What a reader of the report needs to know of a law."""

    id: str
    version: int
    statement: str
    force: str
    tolerance: str
    source: str = ""


@dataclass(frozen=True)
class Omitted:
    """What a brief report counts and does not list: points judged and points left undecided, in
    pairs whose law holds.
    """

    points: int
    undecided: int


@dataclass(frozen=True)
class Expense:
    """What the laws on a target took: seconds of processor time, and the resident bytes of the
    process that measured them at their highest, 0 where nobody looked.
    """

    seconds: float = 0.0
    peak: int = 0

    def __add__(self, other: Expense) -> Expense:
        return Expense(self.seconds + other.seconds, max(self.peak, other.peak))


FREE = Expense()


@dataclass(frozen=True)
class Shard:
    """Which part of how many a report is on, from 1 on; ``targets``: those of the whole audit."""

    index: int
    count: int
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
