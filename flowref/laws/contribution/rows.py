"""Rows of a batch are independent, have separate noise, and stay finite for every draw."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.arithmetic import rows_max
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import Finding, Look, two_stage
from flowref.laws.contribution.calls import accepted_points, contribution
from flowref.model import (
    EXACT,
    GIVEN,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Pushing, TwoWay, offers

# Seeds per batch.
SEEDS = 6
# Calls of the two stages and copies of a point per batch; the excess that leads to the second
# stage, which decides.
STAGES, ROWS, CONSPICUOUS = (24, 96), 64, 2.0
# The ratio of the spread of means over calls to that expected from rows: for independent rows a
# second stage exceeds it with probability below 1e-9.
BEYOND = 2.2
# The least number of rows that must stay, and leave, for their counts to be compared; with fewer,
# the point has this many copies in a batch.
MANY, OFTEN = 200, 1024


@law(
    "same/rows[contribution]",
    key="contribution/rows-independent",
    local=False,
    effort=4,
    size=16,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): x and z are one event; a chain accepts each "
    "of its walkers by itself (Wu et al., arXiv:2002.06707)",
)
def rows_independent_contribution(flow: Pushing, batch: Batch) -> Residual:
    """With the same random seed, the result of a row does not depend on the other rows of its
    batch.

    The batch keeps its size, since random numbers are drawn for all rows together.
    """
    rows = len(batch.x)
    if rows < 2:
        raise Undecidable("the batch has one row")
    points = accepted_points(flow, batch)
    kept = np.arange(rows) < (rows + 1) // 2
    shape = (-1, *[1] * (points.ndim - 1))
    # Other points of the same batch lie in the domain, too.
    other = np.where(kept.reshape(shape), points, points[::-1])
    value, size = np.zeros((rows, 2)), np.ones(rows)
    for seed in range(batch.seed, batch.seed + SEEDS):
        outs = [flow.push(x, seed, batch.context) for x in (points, other)]
        z, w = (np.asarray(out.value, dtype=np.float64) for out in outs)
        v, u = (contribution(out, rows) for out in outs)
        with np.errstate(invalid="ignore"):
            gaps = np.stack([rows_max(z - w), np.abs(v - u)], 1)
        value = np.maximum(value, np.where(kept[:, None], np.nan_to_num(gaps, nan=0.0), 0.0))
        size = np.maximum(size, np.nan_to_num(1 + rows_max(z) + np.abs(v), posinf=1.0, nan=1.0))
    return Residual(value, size, trivial=~kept)


@law(
    "map/finite[draws]",
    key="contribution/finite-for-every-draw",
    tolerance=EXACT,
    effort=4,
    size=48,
    source="a proposal that is refused leaves nothing behind: 0 times infinity is NaN",
)
def finite_for_every_draw(flow: Pushing, batch: Batch) -> Residual:
    """At a point with a finite result for one draw, no draw gives nan, neither as value nor as
    contribution.
    """
    rows = len(batch.x)
    points = accepted_points(flow, batch)
    good, bad = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for seed in range(batch.seed, batch.seed + SEEDS):
        out = flow.push(points, seed, batch.context)
        z, v = np.asarray(out.value, dtype=np.float64), contribution(out, rows)
        missing: Array = np.isnan(z.reshape(rows, -1)).any(1) | np.isnan(v)
        bad |= missing
        good |= ~missing & np.isfinite(z.reshape(rows, -1)).all(1) & np.isfinite(v)
    return Residual((bad & good).astype(np.float64), decidable=good)


@law(
    "random/rows-independent[contribution]",
    key="contribution/noise-of-each-row",
    tolerance=STATISTICAL,
    local=False,
    scales=GIVEN,
    effort=1,
    size=16,
    version=3,
    source="rows of a batch are independent events: what is drawn once for all of them gives none of them another "
    "distribution, and a batch no more samples than one",
)
def noise_of_each_row(flow: Pushing, batch: Batch) -> Residual:
    """Copies of a point in one batch have independent noise: their mean varies between calls like
    that of independent draws.

    Two stages; violated only if fresh draws confirm.
    """
    found: list[Finding | None] = []
    for row in range(len(batch.x)):
        one = batch.rows(slice(row, row + 1))
        out, refused = attempt(flow.push, one.x, batch.seed, one.context)
        if refused:
            continue
        found.append(dispersion(flow, "push", one.x, one))
        if offers(flow, TwoWay):
            z = np.asarray(out.value, dtype=np.float64) + 0.0
            found.append(dispersion(flow, "pull", z, one))
    known = [one for one in found if one is not None]
    if not known:
        raise Unsupported("it draws nothing at its points", blocked=False)
    return max(known, key=lambda one: float(one.excess)).residual(len(batch.x), BEYOND)


def dispersion(flow: Pushing, name: str, x: Array, batch: Batch) -> Finding | None:
    """The variance of means over calls relative to that expected from rows, for the entry where it
    is largest; None if nothing is random.
    """
    often = ROWS
    way = "forward" if name == "push" else "inverse"

    def ratio(look: Look) -> Finding | None:
        nonlocal often
        drawn, few = results(flow, name, x, batch, look, often)
        spread = spread_over_calls(drawn)
        calm = spread is None or spread <= CONSPICUOUS
        if calm and few and often == ROWS and not sparing(flow):
            often = OFTEN
            spread = spread_over_calls(results(flow, name, x, batch, look, often)[0])
        return (
            None
            if spread is None
            else Finding(
                spread,
                {"spread over calls beside that over rows": spread},
                f"{way} draws the same for all rows of a batch: their mean varies {spread:.3g} times as much as that of "
                "independent rows",
            )
        )

    return two_stage(ratio, STAGES, batch.seed + 5000, CONSPICUOUS, apart=5000)


def spread_over_calls(drawn: Array) -> float | None:
    """The same for results ``(calls, rows, numbers)`` at one point; None if all are equal."""
    if not drawn.size or (drawn == drawn[0, 0]).all():
        return None
    # The empirical distribution function is bounded, whatever the values are.
    columns = np.moveaxis(drawn, -1, 0)
    places = [np.searchsorted(np.sort(one, axis=None), one, "right") for one in columns]
    ranks = np.stack(places, -1) / drawn[..., 0].size
    between = drawn.shape[1] * ranks.mean(1).var(0, ddof=1)
    spread = ranks.reshape(-1, ranks.shape[-1]).var(0, ddof=1)
    moves = spread > 0
    return float((between[moves] / spread[moves]).max(initial=0.0))


def results(
    flow: Pushing, name: str, x: Array, batch: Batch, look: Look, rows: int
) -> tuple[Array, bool]:
    """Results of calls on copies of a point, ``(calls, rows, numbers)``, and whether some rows
    stay or leave, but too few to be counted.
    """
    outs, moved, points = [], False, np.repeat(x, rows, 0)
    context = None if batch.context is None else np.repeat(batch.context[:1], rows, 0)
    start = points.reshape(rows, -1)
    for seed in range(look.seed, look.seed + look.count):
        out, refused = attempt(flow.calls[name], points.copy(), seed, context)
        if refused:
            raise Undecidable(f"{name} raises {refused}")
        value = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
        # A rejected proposal stays in place: the distance moved shows that, unless few are
        # rejected; then the number that stay varies.
        moved = value.size == start.size
        far = np.abs(value - start) if moved else value[:, :0]
        stays = (far == 0).all(1, keepdims=True) * 1.0
        outs.append(np.concatenate([value, far, stays], 1))
    drawn: Array = np.stack(outs)
    stay = drawn[..., -1]
    # Small counts per call are not nearly normal.
    few = moved and min(stay.sum(), (1 - stay).sum()) < MANY
    if not moved or few:
        drawn = drawn[..., :-1]
    return drawn[..., ~np.isnan(drawn).any((0, 1))], bool(few and 0 < stay.mean() < 1)
