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
