"""Caches from calls with another number of points, or events of another size; and memory that
grows with the square of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from flowref.laws.common.amounts import planned, sparing
from flowref.laws.common.cases import NO_GRAD
from flowref.laws.common.outcomes import attempt, flags, outcome_gap
from flowref.laws.common.probes import POINTWISE, Probe, probe_agreement_residual, probes
from flowref.laws.common.requirements import not_estimator
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
)
from flowref.model.abilities import Flow, Living, Rounded, offers
from flowref.model.steps import Eval, Run, Step

# Rows of three batches, in the ratio 1:2:4, and of three others; and bytes per pair of points from
# which on a call counts as writing one number for each.
BATCHES, PAIR = ((12, 24, 48), (18, 36, 72)), 4.0
# The same for heavy calls, for which every written number is counted.
BATCHES_OF_HEAVY = ((1, 2, 3), (2, 3, 4))
# Larger differences are no rounding.
ALIKE = 1e-9
# Entries of a batch in which pairs are counted.
ENTRIES = 2**18


@law(
    "same/history[other-sizes]",
    key="conduct/earlier-sizes",
    effort=2,
    size=7,
    scales=NEARBY,
    history="fresh",
    applies=not_estimator,
    source="masks, constants and workspaces are cached between calls by their shape only",
    version=2,
    cases=(NO_GRAD,),
)
def earlier_sizes(flow: Living, batch: Batch) -> Residual:
    """In eval mode, the result of a call does not depend on earlier calls with another number of
    points, or at events of another size if these are accepted.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Unsupported("there is only one point", blocked=False)
    probed, error = attempt(probes, flow, batch, calls=POINTWISE)
    if error:
        raise Unsupported(f"as it is built it refuses to be called ({error})", blocked=False)
    begin = [Eval()] if flow.stateful else []
    asked = [probe.step() for probe in probed]
    alone, error = attempt(lambda: [flow.play([*begin, one])[-1] for one in asked])
    if alone is None:
        raise Unsupported(f"it refuses to be called so ({error})")
    early = sparing(flow)
    if early:  # a few calls show what all of them would cost
        not_by_its_first_points(flow, probed, begin, alone)
    seen, refused = [], ""
    for others in beforehand(probed, rows, early):
        taken = others
        after, error = attempt(flow.play, [*begin, *taken, *asked]) if taken else (None, "")
        if after is None:  # some of them may raise alone
            taken = [one for one in others if not attempt(flow.play, [*begin, one])[1]]
            if not taken:
                continue
            after, error = attempt(flow.play, [*begin, *taken, *asked])
        if after is None:
            # An object built by its first call may be built for events of that size.
            resized = taken[0].inputs[0].shape[1:] != probed[0].points.shape[1:]
            refused = refused or ("" if resized else error)
            continue
        seen += list(zip(probed, alone, after[-len(asked) :], strict=True))
    if not early:
        not_by_its_first_points(flow, probed, begin, alone)
    if refused:  # each of these calls was accepted alone
        note = f"after calls at other sizes it raises {refused}"
        return Residual(np.full(rows, np.inf), note=note)
    if not seen:
        raise Unsupported("it takes batches of one size only")
    return probe_agreement_residual(
        seen, rows, "calls made before at other sizes change the result"
    )


def unchanged(pairs: Iterable[tuple[Mapped, Mapped]], rows: int) -> bool:
    """Whether all pairs of outcomes are equal up to rounding."""
    return all(
        np.nan_to_num(outcome_gap(one, other, rows), nan=0.0).max() <= ALIKE for one, other in pairs
    )


def not_by_its_first_points(
    flow: Living, probed: Sequence[Probe], begin: Sequence[Step[Any]], alone: Sequence[Mapped]
) -> None:
    """Raise `Unsupported` if results change after calls at as many points with other statistics,
    as with initialization by the first batch.
    """
    if (
        offers(flow, Rounded) and flow.rounding()
    ):  # tested without noise, which makes any two calls differ
        return
    rows = len(probed[0].points)
    others = [probe.rows(np.arange(rows) // 2).step() for probe in probed]
    asked = [probe.step() for probe in probed]
    started, _ = attempt(flow.play, [*begin, *others, *asked])
    if started is None or not unchanged(zip(alone, started[-len(asked) :], strict=True), rows):
        raise Unsupported("its results depend on the points of its first call")


def beforehand(probed: Sequence[Probe], rows: int, together: bool) -> Iterator[list[Run]]:
    """Calls at one point, at more points, and at events that are transposed or half as large; with
    ``together`` both numbers of points one after the other, for expensive calls.
    """
    fewer = [probe.rows([0]).step() for probe in probed]
    more = [probe.rows([*range(rows), 0]).step() for probe in probed]
    yield from [[*fewer, *more]] if together else [fewer, more]
    for change in (transposed_images, upper_image_halves):
        changed = [(probe, change(probe.points)) for probe in probed]
        yield [probe.at(points).step() for probe, points in changed if points is not None]


def transposed_images(points: Array) -> Array | None:
    """Transposed images, if that is another size; else None."""
    if points.ndim != 4 or points.shape[2] == points.shape[3]:
        return None
    return np.ascontiguousarray(points.swapaxes(2, 3))


def upper_image_halves(points: Array) -> Array | None:
    """The upper halves of images; None for other events."""
    if points.ndim != 4 or points.shape[2] % 4:
        return None
    return np.ascontiguousarray(points[:, :, : points.shape[2] // 2])


@law(
    "effects/memory[rows]",
    key="conduct/memory-by-row",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    local=False,
    source="results for each pair of points do not fit into memory for large batches",
)
def memory_by_row(flow: Flow, batch: Batch) -> Residual:
    """The memory that a call writes grows linearly with the number of points, not quadratically.

    Counted for three batches of the same points, of different sizes, and confirmed with three
    others.
    """
    rows = len(batch.x)
    sizes = planned(flow, BATCHES, BATCHES_OF_HEAVY)
    if sizes[-1][-1] * math.prod(batch.x.shape[1:]) > ENTRIES:
        raise Unsupported("its events are too large for batches of several dozen", blocked=True)
    worst, named = 0.0, ""
    counted = False
    for probe in probes(flow, batch, complete=False, calls=POINTWISE):
        seen: dict[int, float] = {}
        first = pairs(probe, sizes[0], seen)
        if first is None:
            continue
        counted = True
        if first <= max(worst, PAIR):  # whatever the others give
            continue
        other = pairs(probe, sizes[1], seen)
        if other is not None and other > max(worst, PAIR) and 0.5 <= first / other <= 2:
            worst, named = min(first, other), probe.name
    if not counted:
        raise Unsupported("it takes no batches of several dozen")
    note = f"{named} writes {worst:.0f} bytes for each pair of points of a batch" if named else ""
    return flags(bool(named), rows, note)


def pairs(probe: Probe, counts: tuple[int, int, int], seen: dict[int, float]) -> float | None:
    """Bytes that a call writes per pair of points; None if it rejects such batches. Batches in
    ``seen`` are not counted again.

    The coefficient c of a + b n + c n^2, from its values at three n.
    """
    rows = len(probe.points)
    for count in counts:
        if count not in seen:
            observed, refused = attempt(probe.rows(np.arange(count) % rows).observe)
            if refused:
                return None
            seen[count] = observed.written
    (one, first), (two, second), (three, third) = ((n, seen[n]) for n in counts)
    slopes = (second - first) / (two - one), (third - second) / (three - two)
    return float(slopes[1] - slopes[0]) / (three - one)
