"""What is recorded of known failures, as values."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flowref.model import Status, Verdict
from flowref.reporting.outcomes import BROKEN

OUTCOMES = tuple(map(str, (Status.VIOLATED, *BROKEN)))


@dataclass(frozen=True)
class Entry:
    """One known failure. In ``target`` a star stands for any text, and a target without options for
    itself with any; ``law`` is an id.

    ``case``: the name of its pinned case, or empty; ``outcome``: how it fails where no case tells;
    ``max_margin``: worse is new; ``where``: the file and line that it was read from.
    """

    target: str
    law: str
    reason: str
    issue: str = ""
    case: str = ""
    max_margin: float | None = None
    expires: datetime.date | None = None
    outcome: str = str(Status.VIOLATED)
    where: str = ""

    def covers(self, target: str) -> bool:
        """Whether this entry is about a target.

        >>> Entry("zuko:N*", "map/log-det", "").covers("zuko:NSF?features=3")
        True
        """
        name = target if "?" in self.target else target.partition("?")[0]
        pattern = ".*".join(map(re.escape, self.target.split("*")))
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    @property
    def is_glob(self) -> bool:
        """Whether it may be about several targets."""
        return "*" in self.target


@dataclass(frozen=True)
class Baseline:
    """Entries in the order in which they are asked, ``declared`` in pyproject.toml before those
    ``recorded`` in the baseline file, and the pinned cases by name.
    """

    declared: tuple[Entry, ...] = ()
    recorded: tuple[Entry, ...] = ()
    cases: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries."""
        return self.declared + self.recorded

    def entry(self, target: str, law: str) -> Entry | None:
        """The first entry about a pair. Where its case is about another target, it says nothing."""
        return next((entry for entry in self._by_law.get(law, ()) if entry.covers(target)), None)

    @functools.cached_property
    def _by_law(self) -> dict[str, list[Entry]]:
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.law, []).append(entry)
        return groups

    def pinned(self, entry: Entry) -> Verdict | None:
        """The verdict that holds an entry's pinned case."""
        return self.cases.get(entry.case) if entry.case else None

    def pins(self, targets: Sequence[str], laws: Sequence[str]) -> dict[tuple[str, str], Verdict]:
        """The pinned cases of an audit that can be measured again, by pair."""
        chosen: dict[tuple[str, str], Verdict] = {}
        names, ids = set(targets), set(laws)
        for entry in self.entries:
            verdict = self.pinned(entry)
            if (
                verdict is not None
                and verdict.counterexample is not None
                and verdict.target in names
                and verdict.law in ids
                and self.entry(verdict.target, verdict.law) == entry
            ):
                chosen[verdict.target, verdict.law] = verdict
        return chosen

    def without(self, gone: Sequence[Entry]) -> Baseline:
        """This baseline less some recorded entries, and less the cases that nobody names any more."""
        kept = tuple(entry for entry in self.recorded if entry not in gone)
        named = {entry.case for entry in (*self.declared, *kept)}
        cases = {name: case for name, case in self.cases.items() if name in named}
        return replace(self, recorded=kept, cases=cases)
