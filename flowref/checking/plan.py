"""How the measurement of a law is laid out on a subject whose calls are heavy: how many rows, which
calls, how many batches; by what was counted when it was loaded. Light subjects are measured as ever.
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
from flowref.model.budget import SECOND, Means, too_long
from flowref.model.cost import BACKWARD, LinearCost
from flowref.model.target import History

# How many calls a law makes of a batch, as a rule, and how many of those that are measured again
# under noise, each of which takes longer.
CALLS, AGAIN = 3, 6
# The fewest rows that say something of how rows are kept apart, and the fewest of Jacobians.
FEWEST, FEWEST_JACOBIANS = 2, 1
# A call is set aside by laws that can do without it where it takes this share of the work that is
# planned for all; and laws that need it are not measured where it takes so many times as much.
DEAR, DEAREST = 0.25, 6.0
# What statistics of samples need at least, and may take of what is planned.
SAMPLES, SAMPLING = 400, 7.0
# The perturbations of which one comes first, and how much more may be spent until anything is decided; more
# still by the second batch, which has other weights or points.
MOVED, UNDECIDED_YET, SECOND_TRY = (0.3, 0.1, 0.03, 0.01), 4.0, 8.0
# The same of maps of hundreds of steps, each of which enlarges what the ones before it left.
BARELY = (0.01,)
# Batches of so few rows are ordinary points where the weights are as given: of those that may lie
# anywhere all are often out of every range.
SCARCE = 3
# Entries of an event from which on batches are as full as fits; smaller ones have other limits.
SMALL = 64


@dataclass(frozen=True)
class Plan:
    """``rows``: the most of a batch; None: as many as ever. ``aside``: calls that are not made, for
    what they take. ``dear``: whether a single call takes more than is planned. ``silence``: why the
    law is not measured at all.
    """

    rows: int | None = None
    aside: frozenset[str] = frozenset()
    dear: bool = False
    silence: str = ""

    @property
    def note(self) -> str:
        """What the verdict does not speak of."""
        if not self.aside:
            return ""
        return f"without {', '.join(sorted(self.aside))}, which would take too long here"

    def first(self, target: Target, history: History = "warm") -> float | None:
        """The perturbation that is measured first where there may be no second: what was trained is
        measured as it is, and what was just built is often the identity. Maps of many steps are moved
        barely, and those of many layers as far as they bear (see `bearable`): moved weights of that
        many are often no bijection in this precision.
        """
        if self.rows is None:
            return None
        if target.option("weights"):
            return 0.0
        return bearable(target, BARELY if self.dear else MOVED, history)

    @property
    def near(self) -> bool:
        """Whether points are ordinary ones where the weights are as given."""
        return self.dear or (self.rows is not None and self.rows <= SCARCE)

    def enough(self, tally: Tally, spent: Means, settings: Settings) -> bool:
        """Whether another batch like those so far would take more than is planned; several times as
        much where nothing was decided yet, and once more than that: the second batch has other weights,
        which add no ability where one turned out to be missing.
        """
        if self.rows is None or not tally.batches:
            return False
        if tally.points[HELD]:
            times = 1.0
        else:
            once = tally.batches == 1 and not tally.unsupported
            times = SECOND_TRY if once else UNDECIDED_YET
        return spent.spent * (tally.batches + 1) / tally.batches > times * settings.planned

    def lighter(self, subject: Subject) -> Subject:
        """The subject without what is set aside."""
        if not self.aside:
            return subject
        kept = {name: call for name, call in subject.calls.items() if name not in self.aside}
        return replace(subject, calls=Lighter(kept, self.aside))


class Lighter(dict[str, Call[Any]]):
    """The calls of a subject less those that were set aside. A law that asks for one of these all the same
    (the one that is trained, whichever that is) cannot be decided here, and is told why.
    """

    def __init__(self, kept: dict[str, Call[Any]], aside: frozenset[str]) -> None:
        super().__init__(kept)
        self.aside = aside

    def __missing__(self, name: str) -> Call[Any]:
        if name in self.aside:
            raise Undecidable(f"not judged: {name} would take too long here; --timeout grants more")
        raise KeyError(name)


LIGHT = Plan()
# Rows times steps of a training, each of which goes there and back.
TRAINING = 64 * 30


def trainable(subject: Subject, settings: Settings) -> bool:
    """Whether training takes no more than a few times what is planned for batches."""
    row = max((one.bulk.per_row for one in subject.cost.calls.values()), default=0.0)
    return TRAINING * row * (1 + BACKWARD) <= 4 * settings.planned


def takes_full_batches(law: Law, subject: Subject) -> bool:
    """Whether a law takes full batches of an event that is large and cheap."""
    _, event = subject.drawn(law.points)
    return math.prod(event) > SMALL and "jacobian" not in law.needs


def planned(law: Law, subject: Subject, settings: Settings) -> Plan:
    """The layout of a law on a subject."""
    cost, work = subject.cost, settings.planned
    if law.rebuild is not None:  # it says itself how much it takes of a flow built for it
        return LIGHT
    if not cost.heavy:
        return replace(LIGHT, rows=law.size) if takes_full_batches(law, subject) else LIGHT
    dear = {name: cost.of(name).work.of(1) for name in subject.calls}
    dear = {name: spent for name, spent in dear.items() if spent > DEAR * work}
    needed = sorted(dear.keys() & law.needs, key=lambda name: -dear[name])
    if needed and dear[needed[0]] > DEAREST * work:
        name = needed[0]
        share = DEAREST * work / (SECOND * settings.seconds)
        return Plan(silence=f"not judged: one call of {name} {too_long(dear[name], share)}")
    counts = law.tolerance == STATISTICAL and "sample" in law.needs
    drawn = cost.of("sample").work.of(SAMPLES)
    if counts and drawn > SAMPLING * work:
        share = SAMPLING * work / (SECOND * settings.seconds)
        return Plan(silence=f"not judged: drawing {SAMPLES} samples {too_long(drawn, share)}")
    aside = frozenset(dear.keys() - law.needs) if len(dear) < len(subject.calls) else frozenset()
    used = [cost.of(name).work for name in subject.calls if name not in aside]
    if not used:
        return Plan(aside=aside)
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
    return Plan(rows=max(fewest, law.fewest, line.rows(work / times)), aside=aside, dear=single)
