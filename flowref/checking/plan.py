"""The layout of a law on a subject with expensive calls: rows, calls and batches, from the costs
counted at load. Cheap subjects use the defaults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from flowref.checking.judgement import HELD
from flowref.checking.largest_step import bearable
from flowref.checking.settings import Settings
from flowref.checking.tally import Tally
from flowref.model import ROUNDING, STATISTICAL, Call, Law, Subject, Target, Undecidable
from flowref.model.budget import SECOND, Budget, too_long
from flowref.model.cost import BACKWARD, LinearCost
from flowref.model.target import History

# Typical calls of a law on a batch, and repetitions of them under noise.
CALLS, AGAIN = 3, 6
# The fewest rows that can show mixing of rows, and the fewest for Jacobians.
FEWEST, FEWEST_JACOBIANS = 2, 1
# A call with this share of the planned work is left out by laws that do not need it; a law that needs
# a call with this multiple of it is not measured.
EXPENSIVE, TOO_EXPENSIVE = 0.25, 6.0
# The fewest samples of a statistic, and the multiple of the planned work that they may take.
SAMPLES, SAMPLING = 400, 7.0
# Candidates for the first perturbation; multiples of the planned work until something is decided, and
# for the second batch, which has other weights or points.
MOVED, UNDECIDED_YET, SECOND_TRY = (0.3, 0.1, 0.03, 0.01), 4.0, 8.0
# The same for maps of hundreds of steps, which amplify each other's perturbations.
BARELY = (0.01,)
# Batches of at most this many rows are ordinary points at unperturbed weights: arbitrary ones are often
# all out of range.
SCARCE = 3
# Entries of an event from which on batches are as full as fits; smaller ones have other limits.
SMALL = 64


@dataclass(frozen=True)
class Plan:
    """``rows``: the most rows of a batch, None by default; ``skipped_calls``: calls that are not made since
    they are expensive; ``one_call_too_long``: whether a single call exceeds the planned work; ``silence``: why
    the law is not measured at all.
    """

    rows: int | None = None
    skipped_calls: frozenset[str] = frozenset()
    one_call_too_long: bool = False
    silence: str = ""

    @property
    def note(self) -> str:
        """The calls that the verdict does not cover, as text."""
        if not self.skipped_calls:
            return ""
        return f"without {', '.join(sorted(self.skipped_calls))}, which would take too long here"

    def first(self, target: Target, history: History = "warm") -> float | None:
        """Return the perturbation that is measured first, since there may be no second: 0 for
        loaded weights, and the largest bearable one for a new object, which is often the identity.
        None for a cheap subject.
        """
        if self.rows is None:
            return None
        if target.option("weights"):
            return 0.0
        return bearable(target, BARELY if self.one_call_too_long else MOVED, history)

    @property
    def ordinary_points(self) -> bool:
        """Whether unperturbed weights are measured at ordinary points."""
        return self.one_call_too_long or (self.rows is not None and self.rows <= SCARCE)

    def enough(self, tally: Tally, spent: Budget, settings: Settings) -> bool:
        """Whether another batch would exceed the planned work. Several times as much is allowed
        while nothing is decided, and more for the second batch, whose weights differ; not if an
        ability is missing.
        """
        if self.rows is None or not tally.batches:
            return False
        if tally.points[HELD]:
            times = 1.0
        else:
            once = tally.batches == 1 and not tally.unsupported
            times = SECOND_TRY if once else UNDECIDED_YET
        return spent.spent * (tally.batches + 1) / tally.batches > times * settings.planned

    def without_skipped_calls(self, subject: Subject) -> Subject:
        """The subject without the calls in ``skipped_calls``."""
        if not self.skipped_calls:
            return subject
        kept = {
            name: call for name, call in subject.calls.items() if name not in self.skipped_calls
        }
        return replace(subject, calls=WithoutSkippedCalls(kept, self.skipped_calls))


class WithoutSkippedCalls(dict[str, Call[Any]]):
    """The calls of a subject without those in ``skipped_calls``. Raises: `Undecidable` when a law uses one
    of these.
    """

    def __init__(self, kept: dict[str, Call[Any]], skipped_calls: frozenset[str]) -> None:
        super().__init__(kept)
        self.skipped_calls = skipped_calls

    def __missing__(self, name: str) -> Call[Any]:
        if name in self.skipped_calls:
            raise Undecidable(f"not judged: {name} would take too long here; --timeout grants more")
        raise KeyError(name)


DEFAULT_PLAN = Plan()
# Rows times steps of a training.
TRAINING = 64 * 30


def trainable(subject: Subject, settings: Settings) -> bool:
    """Whether training takes at most four times the planned work."""
    row = max((one.bulk.per_row for one in subject.cost.calls.values()), default=0.0)
    return TRAINING * row * (1 + BACKWARD) <= 4 * settings.planned


def takes_full_batches(law: Law, subject: Subject) -> bool:
    """Whether a law takes full batches of an event that is large and cheap."""
    _, event = subject.drawn(law.points)
    return math.prod(event) > SMALL and "jacobian" not in law.needs


def planned(law: Law, subject: Subject, settings: Settings) -> Plan:
    """Return the layout of a law on a subject."""
    cost, work = subject.cost, settings.planned
    if law.rebuild is not None:  # the law chooses its own size
        return DEFAULT_PLAN
    if not cost.heavy:
        return (
            replace(DEFAULT_PLAN, rows=law.size)
            if takes_full_batches(law, subject)
            else DEFAULT_PLAN
        )
    spent = {name: cost.of(name).work.of(1) for name in subject.calls}
    expensive = {name: one for name, one in spent.items() if one > EXPENSIVE * work}
    needed = sorted(expensive.keys() & law.needs, key=lambda name: -expensive[name])
    if needed and expensive[needed[0]] > TOO_EXPENSIVE * work:
        name = needed[0]
        share = TOO_EXPENSIVE * work / (SECOND * settings.seconds)
        return Plan(silence=f"not judged: one call of {name} {too_long(expensive[name], share)}")
    counts = law.tolerance == STATISTICAL and "sample" in law.needs
    drawn = cost.of("sample").work.of(SAMPLES)
    if counts and drawn > SAMPLING * work:
        share = SAMPLING * work / (SECOND * settings.seconds)
        return Plan(silence=f"not judged: drawing {SAMPLES} samples {too_long(drawn, share)}")
    skipped_calls = (
        frozenset(expensive.keys() - law.needs)
        if len(expensive) < len(subject.calls)
        else frozenset()
    )
    used = [cost.of(name).work for name in subject.calls if name not in skipped_calls]
    if not used:
        return Plan(skipped_calls=skipped_calls)
    line = max(used, key=lambda bulk: bulk.of(FEWEST))
    single = max(line.of(1), drawn if counts else 0.0) > work
    # What normalizes over a batch needs more than one number of each channel.
    alone = law.pointwise and subject.positioned
    fewest = 1 if single or alone else FEWEST
    if {"jacobian"} & law.needs:
        size = math.prod(subject.event_shape)
        line = LinearCost(line.fixed * (1 + BACKWARD), line.per_row * size * (1 + BACKWARD))
        fewest = FEWEST_JACOBIANS
    times = CALLS * (1 + AGAIN if law.tolerance == ROUNDING else 1)
    return Plan(
        rows=max(fewest, law.fewest, line.rows(work / times)),
        skipped_calls=skipped_calls,
        one_call_too_long=single,
    )
