"""Known failures as values."""

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
    """One known failure. ``target`` may contain ``*`` for any text; without options it matches any.
    ``law`` is an id.

    ``case``: the name of its pinned case, or empty; ``outcome``: how it fails, if there is no case;
    ``max_margin``: a larger margin is a new failure; ``where``: file and line of the entry.
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
        """Whether this entry matches a target.

        >>> Entry("zuko:N*", "map/log-det", "").covers("zuko:NSF?features=3")
        True
        """
        name = target if "?" in self.target else target.partition("?")[0]
        pattern = ".*".join(map(re.escape, self.target.split("*")))
        return re.fullmatch(pattern, name, re.DOTALL) is not None

    @property
    def is_glob(self) -> bool:
        """Whether it may match several targets."""
        return "*" in self.target


@dataclass(frozen=True)
class Baseline:
    """Entries in the order of precedence, those ``declared`` in pyproject.toml before those
    ``recorded`` in the baseline file, and the pinned cases by name.
    """

    declared: tuple[Entry, ...] = ()
    recorded: tuple[Entry, ...] = ()
    cases: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order of precedence."""
        return self.declared + self.recorded

    def entry(self, target: str, law: str) -> Entry | None:
        """Return the first entry that matches a pair; None if there is none."""
        return next((entry for entry in self._by_law.get(law, ()) if entry.covers(target)), None)

    @functools.cached_property
    def _by_law(self) -> dict[str, list[Entry]]:
        groups: dict[str, list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.law, []).append(entry)
        return groups

    def pinned(self, entry: Entry) -> Verdict | None:
        """Return the verdict of an entry's pinned case; None if there is none."""
        return self.cases.get(entry.case) if entry.case else None

    def pins(self, targets: Sequence[str], laws: Sequence[str]) -> dict[tuple[str, str], Verdict]:
        """Return the pinned cases of an audit that can be measured again, by (target, law)."""
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
        """Return this baseline without some recorded entries and without cases that no entry names."""
        kept = tuple(entry for entry in self.recorded if entry not in gone)
        named = {entry.case for entry in (*self.declared, *kept)}
        cases = {name: case for name, case in self.cases.items() if name in named}
        return replace(self, recorded=kept, cases=cases)
