"""Options of an audit, and the interface of its listeners."""

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
    """``jobs`` 0: in this process, without memory limit and without protection from targets.

    ``budget``: seconds after which no pair starts; ``data``: a file or object with a user's points;
    ``folder``: of journal and reports, or None; ``fresh``: ignore an interrupted audit;
    ``defaults``: options for targets without them; ``baseline``: known failures; ``entry``: the
    function that checks a pair, as "module:name"; ``shard``: the part to run, as "1/4", empty for
    all; ``costs``: CPU seconds of targets in an earlier audit, by which the parts are balanced;
    ``ignore``: globs of laws to leave out; ``failures``: number of new failures after which no pair
    starts, 0 for never; ``strict``: whether minor violations count; ``wanted``: target -> law ids,
    for targets with fewer laws; ``dask``: address of a scheduler whose workers replace local
    processes; ``device``: where device laws move objects.
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
    """Receives the events of an audit; front ends override what they show."""

    def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
        """The audit starts; ``earlier``: number of verdicts from an interrupted run."""

    def share(self, pairs: int) -> None:
        """Only this many pairs of the targets and laws are run."""

    def start(self, pair: ScheduledPair) -> None:
        """A pair starts."""

    def verdict(self, verdict: Verdict) -> None:
        """A pair is finished."""

    def problem(self, problem: Problem) -> None:
        """A target cannot be audited."""

    def listing(self, listing: Listing) -> None:
        """The flows found in a file that was named as a whole."""
        for name, reason in listing.left:
            self.notice(f"left out of {listing.place}: {name}: {reason}")
        if listing.examples:
            each = ", ".join(str(one).removeprefix(f"{listing.place}:") for one in listing.examples)
            self.notice(
                f"{listing.place}: built with numbers for what they need: {each}; others may be given"
            )

    def left_out(self, problem: Problem) -> None:
        """An object of such a file is no flow, or cannot be built."""
        self.notice(f"left out: {problem.message}")

    def target(
        self,
        target: Target,
        verdicts: Sequence[Verdict],
        recognized: Recognized | None = None,
        known: Sequence[KnownFailure] = (),
    ) -> None:
        """All pairs of a target are finished, or those that an interrupted audit reached;
        ``recognized``: None if it was not loaded; ``known``: its known failures with their
        standing.
        """

    def notice(self, text: str) -> None:
        """A message for the user."""
