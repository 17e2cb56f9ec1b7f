"""How an audit runs, and who follows it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flowref.auditing.pool import CHECK, Limits
from flowref.auditing.schedule import ScheduledPair
from flowref.baseline.entry import Baseline
from flowref.model import KnownFailure, Law, Problem, Recognized, Target, Verdict
from flowref.registry import Listing


@dataclass(frozen=True)
class Options:
    """How an audit runs. ``jobs`` 0: in this process, with no memory limit and no protection from
    what targets do.

    ``budget``: seconds after which no pair starts; ``data``: what holds points of a user's.
    ``folder``: where the journal and the report are kept, or None. ``fresh``: do not go on with an
    interrupted audit. ``defaults``: options for targets that do not give them. ``baseline``:
    failures that are known. ``entry``: the function that checks a pair, as "module:name".
    ``shard``: which part is to be run, as "1/4", empty for all; ``costs``: what targets took earlier,
    by which the parts are balanced. ``ignore``: laws that are left out, as globs. ``failures``: after
    how many new ones no pair starts, 0 for never; ``strict``: minor violations are some. ``wanted``: the
    laws of targets that are not held to all of them, by id. ``dask``: the address of a scheduler whose workers are used, in
    place of processes of this machine. ``device``: where laws of devices move objects, by name.
    """

    profile: str = "standard"
    seed: int = 0
    jobs: int = 0
    limits: Limits = field(default_factory=Limits)
    budget: float = math.inf
    data: str = ""
    folder: Path | None = None
    fresh: bool = False
    defaults: dict[str, str] = field(default_factory=dict)
    command: str = ""
    baseline: Baseline = field(default_factory=Baseline)
    entry: str = CHECK
    shard: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)
    wanted: Mapping[str, Collection[str]] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    failures: int = 0
    strict: bool = False
    dask: str = ""
    device: str = ""


class AuditListener:
    """Hears what happens; a front end overrides what it shows."""

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
        """The selection is made; ``earlier`` verdicts come from an interrupted run."""

    def share(self, pairs: int) -> None:
        """Only so many pairs of these targets and laws are to be run."""

    def start(self, pair: ScheduledPair) -> None:
        """A pair starts."""

    def verdict(self, verdict: Verdict) -> None:
        """A pair is done."""

    def problem(self, problem: Problem) -> None:
        """A target cannot be audited."""

    def listing(self, listing: Listing) -> None:
        """What was found in a file that was named as a whole."""
        for name, reason in listing.left:
            self.notice(f"left out of {listing.place}: {name}: {reason}")
        if listing.examples:
            each = ", ".join(str(one).removeprefix(f"{listing.place}:") for one in listing.examples)
            self.notice(
                f"{listing.place}: built with numbers for what they need: {each}; others may be given"
            )

    def left_out(self, problem: Problem) -> None:
        """One of these turns out to be no flow, or cannot be built."""
        self.notice(f"left out: {problem.message}")

    def target(
        self,
        target: Target,
        verdicts: Sequence[Verdict],
        recognized: Recognized | None = None,
        known: Sequence[KnownFailure] = (),
    ) -> None:
        """All pairs of a target are done, or as many as an interrupted audit did; ``recognized``: what it
        was taken for, if it was loaded; ``known``: how its known failures stand.
        """

    def notice(self, text: str) -> None:
        """Something that the user should know."""
